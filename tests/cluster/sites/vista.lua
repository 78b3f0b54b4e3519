-- What the site's own filter asks for, read by rules.lua.
site = {
   account = true,
   no_nodelist = true,
}

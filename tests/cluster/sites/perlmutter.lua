-- What the site's own filter asks for, read by rules.lua.
site = {
   account = true,
   suffix = "_g",
   gpus = true,
   qos = { "regular", "debug", "preempt", "interactive", "shared" },
   constraint = true,
}

-- What the site's own filter asks for, read by rules.lua.
site = {
   account = true,
   gpus = true,
   memory = "forbidden",
   cpus_per_gpu = 20,
}

-- What the site's own filter asks for, read by rules.lua.
site = {
   account = true,
   gpus = true,
   memory = "required",
   exclusive = true,
   qos = { "normal", "boost_qos_dbg", "boost_qos_bprod", "boost_qos_lprod" },
}

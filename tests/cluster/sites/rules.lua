-- rules.lua - a submit filter (job_submit/lua) that refuses what sites refuse; `site` says what that is.
-- The words are those that a user would have to understand.

local function refuse(words)
   slurm.log_user("HARD REJECTED: " .. words)
   return slurm.ERROR
end

-- "gres:gpu:4" or "gpu:a100:4": how many; nil: none
local function gpus_of(tres)
   if tres == nil or not string.find(tres, "gpu") then return nil end
   return tonumber(string.match(tres, "(%d+)$")) or 1
end

local function is_one_of(list, word)
   for _, w in ipairs(list) do
      if w == word then return true end
   end
   return false
end

function slurm_job_submit(job, partitions, uid)
   local account = job.account or ""
   local memory = job.pn_min_memory ~= nil and job.pn_min_memory ~= slurm.NO_VAL64
   local gpus = gpus_of(job.tres_per_node)
   if site.account and account == "" then return refuse("no account given") end
   if site.suffix and string.sub(account, -#site.suffix) ~= site.suffix then
      return refuse("account " .. account .. " may not use GPU nodes")
   end
   if site.gpus and gpus == nil then return refuse("no GPUs per node asked for") end
   if site.memory == "required" and not memory then return refuse("no memory asked for") end
   if site.memory == "forbidden" and memory then return refuse("--mem is not allowed") end
   if site.exclusive and job.shared ~= 0 then return refuse("jobs have to be exclusive") end
   if site.constraint and (job.features or "") == "" then return refuse("no constraint: gpu or cpu") end
   if site.no_nodelist and (job.req_nodes or "") ~= "" then
      return refuse("jobs that name their nodes are deleted")
   end
   if site.qos and job.qos ~= nil and not is_one_of(site.qos, job.qos) then
      return refuse("there is no qos " .. job.qos)
   end
   if site.cpus_per_gpu and job.ntasks_per_node * job.cpus_per_task < site.cpus_per_gpu * gpus then
      return refuse("cpus must be >= " .. site.cpus_per_gpu .. " x gpus")
   end
   return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
   return slurm.SUCCESS
end

-- Health of the kinds of Liqo for Argo CD: one script for "*.liqo.io/*" in resource.customizations of the ConfigMap argocd-cm.
-- Kinds that are not named here are healthy as soon as they exist, because they have no state of their own.

local function result(status, message)
  return {status = status, message = message or ""}
end

-- find_condition returns the condition of that type, nil if there is none or if it speaks of an older generation.
local function find_condition(kind)
  for _, c in ipairs((obj.status or {}).conditions or {}) do
    if c.type == kind and (c.observedGeneration == nil or c.observedGeneration >= (obj.metadata.generation or 0)) then
      return c
    end
  end
  return nil
end

-- from_condition translates a condition with the values True, False and Unknown.
local function from_condition(kind)
  local c = find_condition(kind)
  if c == nil then
    return result("Progressing", "waiting for the condition " .. kind)
  end
  if c.status == "True" then
    return result("Healthy", c.message)
  end
  if c.status == "False" then
    return result("Degraded", (c.reason or "") .. ": " .. (c.message or ""))
  end
  return result("Progressing", c.message)
end

local health = {}

function health.ResourceSlice()
  for _, kind in ipairs({"Authentication", "Resources"}) do
    local c = find_condition(kind)
    if c == nil then
      return result("Progressing", "the provider has not decided on " .. kind .. " yet")
    end
    if c.status == "Denied" then
      return result("Degraded", kind .. " denied: " .. (c.message or c.reason or ""))
    end
  end
  return result("Healthy")
end

function health.Tenant()
  local wanted = (obj.spec or {}).tenantCondition
  if wanted == "Cordoned" or wanted == "Drained" then
    return result("Suspended", "tenantCondition is " .. wanted)
  end
  return from_condition("Ready")
end

function health.NamespaceOffloading()
  local phase = (obj.status or {}).offloadingPhase
  if phase == "Ready" then
    return result("Healthy")
  end
  if phase == "SomeFailed" or phase == "AllFailed" then
    local why = phase
    for cluster, conditions in pairs((obj.status or {}).remoteNamespacesConditions or {}) do
      for _, c in ipairs(conditions) do
        if c.type == "Ready" and c.status == "False" then
          why = why .. "; " .. cluster .. ": " .. (c.message or c.reason or "")
        end
      end
    end
    return result("Degraded", why)
  end
  if phase == "NoClusterSelected" then
    return result("Progressing", "no virtual node matches the cluster selector yet")
  end
  return result("Progressing", phase)
end

function health.VirtualNode()
  for _, kind in ipairs({"VirtualKubelet", "Node"}) do
    local c = find_condition(kind)
    if c == nil or c.status ~= "Running" then
      return result("Progressing", kind .. ": " .. ((c or {}).status or "waiting"))
    end
  end
  return result("Healthy")
end

function health.Connection()
  local value = (obj.status or {}).value
  if value == "Connected" then
    return result("Healthy")
  end
  if value == "Error" then
    return result("Degraded", "the tunnel is down")
  end
  return result("Progressing", "the tunnel is being established")
end

function health.Configuration()
  return from_condition("NetworkCIDRsConfigured")
end

function health.GatewayServer()
  return from_condition("Ready")
end

function health.GatewayClient()
  return from_condition("Ready")
end

local check = health[obj.kind]
if check == nil then
  return result("Healthy")
end
return check()

/** Payloads as scripts read them. */

/**
 * Objects in the text that `JSON.stringify` writes, cut into their members without reading the values: what is
 * written again is the same to the byte.
 */
export const JSON_MEMBERS = `
local function afterString(text, at)
  repeat
    at = string.find(text, '["\\\\]', at + 1)
    local quote = string.sub(text, at, at) == '"'
    if not quote then at = at + 1 end
  until quote
  return at + 1
end

local function afterValue(text, at)
  local depth = 0
  while true do
    at = string.find(text, '["{}%[%],]', at)
    local sign = string.sub(text, at, at)
    if sign == '"' then
      at = afterString(text, at)
    else
      if depth == 0 and (sign == "," or sign == "}") then return at end
      if sign == "{" or sign == "[" then depth = depth + 1 elseif sign ~= "," then depth = depth - 1 end
      at = at + 1
    end
  end
end

local function members(text)
  local found, at = {}, 2
  while string.sub(text, at, at) == '"' do
    local colon = afterString(text, at)
    local stop = afterValue(text, colon + 1)
    found[#found + 1] = { string.sub(text, at, colon - 1), string.sub(text, colon + 1, stop - 1) }
    at = stop + 1
  end
  return found
end

local function together(...)
  local all, places = {}, {}
  for _, list in ipairs({ ... }) do
    for _, member in ipairs(list) do
      if not places[member[1]] then
        places[member[1]] = #all + 1
      end
      all[places[member[1]]] = member
    end
  end
  return all
end

local function written(list)
  local texts = {}
  for i, member in ipairs(list) do texts[i] = member[1] .. ":" .. member[2] end
  return "{" .. table.concat(texts, ",") .. "}"
end

local function entriesOf(list, name)
  for _, member in ipairs(list) do
    if member[1] == name and string.sub(member[2], 1, 1) == "{" then return members(member[2]) end
  end
  return {}
end

local function merged(before, after, name)
  local own = members(after)
  local entries = together(entriesOf(members(before), name), entriesOf(own, name))
  return written(together(own, { { name, written(entries) } }))
end`;

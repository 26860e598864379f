-- The event store and the image store: what is kept, and the few questions that are asked of it. All spaces are of the
-- engine vinyl, a log-structured merge tree on disk: what is written is appended, what is read comes from memory, a
-- cache or sorted runs on disk. Every size is stated; README.md says why each is what it is.
local environment = os.getenv
local megabytes = 1024 * 1024

box.cfg {
    listen = environment('LISTEN'),
    work_dir = environment('DATA'),
    log_level = 'warn',
    wal_mode = environment('WAL_MODE'),
    checkpoint_interval = 3600,
    checkpoint_count = 1,
    checkpoint_wal_threshold = 256 * megabytes,
    readahead = 65536,
    net_msg_max = 768,
    memtx_memory = 64 * megabytes,
    vinyl_memory = tonumber(environment('VINYL_MEMORY_MB')) * megabytes,
    vinyl_cache = tonumber(environment('VINYL_CACHE_MB')) * megabytes,
    vinyl_max_tuple_size = 4 * megabytes,
    vinyl_read_threads = 1,
    vinyl_write_threads = 2,
}

-- Name of a space, then the types of the fields of its key.
local function space(name, types)
    local made = box.schema.space.create(name, {engine = 'vinyl', if_not_exists = true})
    local parts = {}
    for field, type in ipairs(types) do
        parts[field] = {field, type}
    end
    made:create_index('pk', {parts = parts, if_not_exists = true})
    return made
end

local bids = space('bid_by_bidderid', {'unsigned', 'unsigned', 'string'})
local attendance = space('attendancerecord_by_userid', {'unsigned', 'unsigned', 'string'})
local infos = space('image_info', {'unsigned', 'string'})
-- Which images are kept in which size, without their bytes: counting them does not read them.
local stored = space('image_stored', {'string', 'string'})
local images = {
    THUMBNAIL = space('image_thumbnail', {'string'}),
    PREVIEW = space('image_preview', {'string'}),
    FULL = space('image_full', {'string'}),
}

-- A page of the rows of one user, the newest first, and how many there are.
local function page_of(space, user, offset, limit)
    local total = space.index.pk:count({user})
    return total, space.index.pk:select({user}, {iterator = 'REQ', offset = offset, limit = limit})
end

-- Writes rows as one transaction.
local function load(space, rows)
    box.begin()
    for _, row in ipairs(rows) do
        space:replace(row)
    end
    box.commit()
end

-- A bid whose key is there already was decided before its acceptance was noted: the decision stays.
function bid_add(row)
    local done, failure
    repeat
        box.begin()
        done, failure = pcall(function()
            if bids:get({row[1], row[2], row[3]}) == nil then
                bids:replace(row)
            end
            box.commit()
        end)
        if not done then
            box.rollback()
            -- The decision came between looking and writing: the next look finds it.
            if type(failure) ~= 'cdata' or failure.code ~= box.error.TRANSACTION_CONFLICT then
                error(failure)
            end
        end
    until done
end

function bid_put(row)
    bids:replace(row)
end

function bid_get(bidder, time, id)
    return bids:get({bidder, time, id})
end

function bids_of(user, offset, limit)
    return page_of(bids, user, offset, limit)
end

function bids_load(rows)
    load(bids, rows)
end

function bids_after(key, limit)
    return bids.index.pk:select(key, {iterator = 'GT', limit = limit})
end

function attendance_put(row)
    attendance:replace(row)
end

function attendance_of(user, offset, limit)
    return page_of(attendance, user, offset, limit)
end

function attendance_load(rows)
    load(attendance, rows)
end

function attendance_count()
    return attendance.index.pk:count()
end

function image_info_put(row)
    infos:replace(row)
end

function image_info_of(item)
    return infos.index.pk:select({item})
end

function image_info_count()
    return infos.index.pk:count()
end

function image_put(id, size, bytes)
    box.begin()
    images[size]:replace({id, bytes})
    stored:replace({size, id, #bytes})
    box.commit()
end

function image_get(id, size)
    local found = images[size]:get({id})
    return found and found[2]
end

function image_count(size)
    return stored.index.pk:count({size})
end

-- The last thing: whoever may log in finds everything there.
box.schema.user.create(environment('STORE_USER'), {password = environment('STORE_PASSWORD'), if_not_exists = true})
box.schema.user.grant(environment('STORE_USER'), 'read,write,execute', 'universe', nil, {if_not_exists = true})
print('the event store is ready')
io.stdout:flush()

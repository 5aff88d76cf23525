-- Fingerprints as the API writes them: 64 bits do not fit into a number of
-- JavaScript, whose clients fail on such a row.
drop view dead_letters;
create view dead_letters as
  select j.id, q.name as queue, t.name as type, j.failures, j.crashes,
    case when j.error_fp is not null then printf('%016x', j.error_fp) end as error_fp,
    (select o.last_error from outcomes o where o.id = j.id) as last_error, j.at as finished_at_ms
  from queues q join jobs j on j.queue = q.id and j.state = 7 join types t on t.id = j.type
  where j.flags & 16 = 0;
drop view job;
create view job as
  select j.id, q.name as queue, t.name as type,
    case j.state when 2 then 'blocked' when 3 then 'scheduled' when 4 then 'queued' when 5 then 'running'
      when 6 then 'done' when 7 then 'dead' else 'cancelled' end as state,
    j.priority, j.run_at as run_at_ms, j.run, j.failures, j.crashes, j.interruptions,
    w.name as worker,
    nullif(j.started_at, 1099511627776) as started_at_ms,
    case j.state when 5 then j.at end as lease_until_ms,
    case when j.state >= 6 then j.at end as finished_at_ms,
    j.flags & 2 != 0 as cancel_requested, j.archived_at as archived_at_ms, j.created_at as created_at_ms,
    j.expires_at as expires_at_ms,
    case when j.error_fp is not null then printf('%016x', j.error_fp) end as error_fp,
    o.last_error, o.result, o.progress, j.spec,
    coalesce(j.payload, p.data) as payload
  from jobs j join queues q on q.id = j.queue join types t on t.id = j.type join workers w on w.id = j.worker
    left join outcomes o on o.id = j.id left join payloads p on p.id = j.id;

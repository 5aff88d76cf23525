-- The file as design: integers for states and names (the tables below decode
-- them in the views at the end), rows that keep their length when their state
-- changes, so that SQLite overwrites them in place.
--
-- state: 2 blocked, 3 scheduled, 4 queued, 5 running, 6 done, 7 dead, 8 cancelled
-- 1099511627776 (2^40) stands for "no time" where a column keeps its width
-- flags: 2 cancel requested, 4 payload in payloads, 8 has an idempotency key, 16 archived
create table jobs(
  id            integer primary key,
  state         integer not null check(state between 2 and 8),
  queue         integer not null,
  priority      integer not null default 0,
  run_at        integer not null,
  at            integer not null,            -- scheduled: due; running: end of the lease; final: finished
  started_at    integer not null,
  worker        integer not null,            -- workers.id; 65536 before the first run
  run           integer not null default 0,
  failures      integer not null default 0,
  crashes       integer not null default 0,
  interruptions integer not null default 0,
  flags         integer not null default 0,
  type          integer not null,
  created_at    integer not null,
  expires_at    integer,
  error_fp      integer,
  archived_at   integer,
  spec          text,                        -- JSON of what differs from the queue's settings
  payload       any                          -- up to 256 bytes; null: in payloads
) strict;
create index claimable on jobs(queue, priority desc, run_at) where state = 4;
create index due       on jobs(at) where state = 3;
create index leases    on jobs(at) where state = 5;
create index finished  on jobs(queue, state, at) where state >= 6;
create index dead      on jobs(queue, error_fp) where state = 7;
create index expiring  on jobs(expires_at) where expires_at is not null and state in (3, 4);

create table payloads(id integer primary key, data any not null) strict;
create table outcomes(id integer primary key, result any, progress any, last_error text) strict;
create table keys(queue integer not null, key blob not null, job integer not null, body blob not null,
  primary key(queue, key)) strict, without rowid;
create table job_runs(job integer not null, run integer not null, started_at integer not null, ended_at integer not null,
  outcome integer not null, worker integer not null, error text, primary key(job, run)) strict, without rowid;

create table queues(id integer primary key, name text not null unique, settings text) strict;
create table types(id integer primary key, name text not null unique) strict;
create table workers(id integer primary key, name text not null unique, seen_at integer not null) strict;
insert into workers(id, name, seen_at) values (65536, '', 0);

create table counts(                         -- id 0: the file (seq, next_id, committed_at); else queues.id
  id        integer primary key,
  blocked   integer not null default 0,
  scheduled integer not null default 0,
  queued    integer not null default 0,
  running   integer not null default 0,
  done      integer not null default 0,
  dead      integer not null default 0,      -- without archived ones
  cancelled integer not null default 0,
  minute    integer not null default 0,      -- of the four that follow, Unix minutes
  m_in      integer not null default 0,
  m_out     integer not null default 0,
  m_failed  integer not null default 0,
  m_dead    integer not null default 0,
  seq       integer not null default 0,
  next_id   integer not null default 1,
  committed_at integer not null default 0) strict;
insert into counts(id) values (0);
create table minutes(queue integer not null, minute integer not null, enqueued integer not null, done integer not null,
  failed integer not null, dead integer not null, primary key(queue, minute)) strict, without rowid;
create table last_errors(queue integer primary key, at integer not null, error text not null) strict;

create table tokens(id integer primary key, name text not null unique, hash blob not null unique, scopes text not null,
  queues text not null, created_at integer not null, revoked_at integer) strict;
create table audit(id integer primary key, at integer not null, actor text not null, action text not null, detail text) strict;
create table meta(k text primary key, v any not null) strict, without rowid;
insert into meta(k, v) values
  ('lineage', lower(hex(randomblob(16)))), ('epoch', 1), ('token_key', randomblob(32)), ('baton_key', randomblob(32));

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
    j.expires_at as expires_at_ms, j.error_fp, o.last_error, o.result, o.progress, j.spec,
    coalesce(j.payload, p.data) as payload
  from jobs j join queues q on q.id = j.queue join types t on t.id = j.type join workers w on w.id = j.worker
    left join outcomes o on o.id = j.id left join payloads p on p.id = j.id;
create view run as
  select r.job, r.run, r.started_at as started_at_ms, r.ended_at as ended_at_ms,
    case r.outcome when 2 then 'failed' when 3 then 'timeout' when 4 then 'crashed' when 5 then 'interrupted' else 'cancelled' end as outcome,
    w.name as worker, r.error
  from job_runs r join workers w on w.id = r.worker;
create view jobs_recent as
  select j.id, q.name as queue, t.name as type,
    case j.state when 2 then 'blocked' when 3 then 'scheduled' when 4 then 'queued' when 5 then 'running'
      when 6 then 'done' when 7 then 'dead' else 'cancelled' end as state,
    j.priority, j.run, j.failures, j.crashes, j.run_at as run_at_ms,
    case when j.state >= 6 then j.at end as finished_at_ms,
    (select o.last_error from outcomes o where o.id = j.id) as last_error
  from jobs j join queues q on q.id = j.queue join types t on t.id = j.type;
create view dead_letters as
  select j.id, q.name as queue, t.name as type, j.failures, j.crashes, j.error_fp,
    (select o.last_error from outcomes o where o.id = j.id) as last_error, j.at as finished_at_ms
  from queues q join jobs j on j.queue = q.id and j.state = 7 join types t on t.id = j.type
  where j.flags & 16 = 0;
-- The oldest queued job of a queue: the first run_at of each distinct priority, one seek each.
create view queue_health as
  select q.name as queue, coalesce(q.settings ->> '$.paused', 0) as paused,
    c.scheduled, c.queued, c.running, c.done, c.dead, c.cancelled,
    (with recursive p(priority) as (
        select max(priority) from jobs where state = 4 and queue = q.id
        union all
        select (select max(j.priority) from jobs j where j.state = 4 and j.queue = q.id and j.priority < p.priority)
          from p where p.priority is not null)
      select min((select min(j.run_at) from jobs j where j.state = 4 and j.queue = q.id and j.priority = p.priority)) from p
    ) as oldest_queued_at_ms,
    e.error as last_error, e.at as last_error_at_ms
  from queues q join counts c on c.id = q.id left join last_errors e on e.queue = q.id;
create view throughput as
  select q.name as queue, m.minute * 60000 as minute_ms, m.enqueued, m.done, m.failed, m.dead
    from queues q join minutes m on m.queue = q.id
  union all
  select q.name, c.minute * 60000, c.m_in, c.m_out, c.m_failed, c.m_dead
    from queues q join counts c on c.id = q.id where c.minute > 0;
create view node_status as
  select (select v from meta where k = 'epoch') as epoch, seq, committed_at as committed_at_ms from counts where id = 0;

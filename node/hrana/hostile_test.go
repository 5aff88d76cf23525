package hrana_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"holdfast/node/hrana"
)

// hostile are statements that somebody who may only view could try, by the code
// that they must get. "" is no error: nothing hidden may be in the answer.
var hostile = map[string][]string{
	"SQLITE_READONLY": {
		"insert",
		"insert into jobs(id) values (1)",
		"INSERT INTO meta(k, v) VALUES ('x', 1)",
		"insert or replace into queues(id, name) values (1, 'x')",
		"replace into meta values ('epoch', 9)",
		"update jobs set state = 4",
		"update meta set v = 0 where k = 'epoch' returning v",
		"delete from jobs",
		"delete from outcomes returning result",
		"create table x(a)",
		"create temp table x(a)",
		"create temporary view queue_health as select * from keys",
		"create view v as select * from keys",
		"create index i on jobs(payload)",
		"create trigger t after insert on jobs begin delete from jobs",
		"create virtual table v using fts5(a)",
		"create virtual table temp.v using dbstat",
		"create table if not exists jobs as select * from keys",
		"drop table jobs",
		"drop view if exists queue_health",
		"drop index claimable",
		"alter table jobs rename to x",
		"alter table jobs add column y",
		"reindex",
		"analyze",
		"vacuum",
		"vacuum into '/tmp/holdfast-hostile.db'",
		"VACUUM main INTO 'file:x.db?mode=rwc'",
		"/* select */ vacuum into 'x.db'",
		"with x as (select 1) insert into jobs(id) select * from x",
		"with x as (select 1) update jobs set state = 1",
		"with x as (select 1) delete from jobs",
		"explain insert into jobs(id) values (1)",
		"explain query plan delete from jobs",
		"explain create table x(a)",
	},
	"SQLITE_AUTH": {
		"attach '/tmp/holdfast-hostile.db' as x",
		"attach database ':memory:' as x",
		"ATTACH 'file:x.db?mode=rwc' AS x",
		"detach main",
		"explain attach 'x.db' as x",
		"select * from tokens",
		"select hash from tokens",
		"select count(*) from tokens",
		"select 1 from main.tokens where hash > x'00'",
		"select * from audit",
		"select exists(select 1 from audit)",
		"select * from sqlite_dbpage",
		"select data from sqlite_dbpage where pgno = 1",
		"select * from dbstat",
		"select * from sqlite_temp_master",
		"select * from temp.sqlite_schema",
		"select * from pragma_query_only(0)",
		"select * from pragma_database_list",
		"select * from pragma_module_list",
		"select * from pragma_function_list",
		"select * from pragma_compile_options",
		"pragma database_list",
		"pragma journal_mode = delete",
		"pragma query_only = 0",
		"pragma writable_schema = 1",
		"pragma trusted_schema = 1",
		"pragma temp_store_directory = '/tmp'",
		"pragma user_version = 9",
		"pragma application_id = 1",
		"pragma wal_checkpoint(truncate)",
		"pragma incremental_vacuum",
		"pragma optimize",
		"pragma integrity_check",
		"pragma cache_size = 1000000",
		"pragma mmap_size = 1000000000",
		"pragma locking_mode = exclusive",
		"pragma key = 'x'",
		"pragma hard_heap_limit = 1",
		"pragma main.schema_version = 1",
		"select load_extension('x.so')",
		"select replace('x', 'x', 'yy')",
		"select zeroblob(1000)",
		"select trim('x', 'x')",
		"select unhex('00', 'x')",
		"with m as (select 1) select count(*) from tokens",
		"with tokens as (select 1) select count(*) from main.tokens",
		"select randomblob(1000)",
		"select json_group_array(id) from jobs",
		"select json_group_object(id, id) from jobs",
		"select jsonb_group_array(id) from jobs",
		"select json_insert('{}', '$.a', 1)",
		"select sqlite_compileoption_get(1)",
		"select sqlite_source_id()",
		"select sqlite_offset(id) from jobs",
		"select fts5_source_id()",
		"select soundex('x'), zeroblob(1)",
		"with recursive c(x) as (select 1 union all select x + 1 from c) select * from c",
		"with c(x) as (select 1 union all select x + 1 from c) select count(*) from c",
		"with \"c\" as (select 1 as x union select x + 1 from [C]) select max(x) from c",
		"with c as not materialized (select 1 as x union all select x + 1 from `c` limit 9) select * from c",
		"select (with c(x) as (values (1) union all select x + 1 from 'c') select count(*) from c)",
		"with p(priority) as (select 1 union all select priority + 1 from p) select * from p, queue_health",
		"with recursive queue_health(x) as (select 1 union all select x + 1 from queue_health) select * from queue_health",
		"select count(*) from (select '" + secretKey + "' as key) join keys using (key)",
		"select count(*) from keys a natural join keys b",
		"select count(*) from (select id, payload from jobs) a join jobs b using (id)",
		"select * from meta a natural join (select 'token_key' as k, 1 as v) b",
		"select * from payloads natural left join outcomes",
		"select count(*) from (select x'00' as hash) a join tokens using (hash)",
		"select count(*) from (select x'00' as data) a join sqlite_dbpage/**/using(data)",
		"select 1 where x'00' in tokens",
	},
	"SQL_MANY_STATEMENTS": {
		"select 1; select 2",
		"select 1; drop table jobs",
		"select ';' ; vacuum into 'x.db'",
		"begin; delete from jobs; commit",
		"select 1 /* ; */ ; -- x\n select 2",
	},
	"SQL_NO_STATEMENT": {"", " ;; ", "-- select 1", "/* select 1"},
	"SQL_PARSE_ERROR":  {"select 1\x00", "select\x00 * from jobs"},
	"SQLITE_TOOBIG": {
		"select '" + strings.Repeat("x", 100_001) + "'",
		"select printf('%.200000c', 'x')",
		"select printf('%*c', 1000000000, 'x')",
		"select length(a || a) from (select b || b as a from (select printf('%.70000c', 'x') as b))",
	},
	"SQLITE_ERROR": {
		"selec 1",
		"select",
		"select * from sqlite_stmt",
		"select * from bytecode('select 1')",
		"select readfile('/etc/passwd')",
		"select writefile('x', 'y')",
		"select edit('x')",
		"select * from secrets",
		"select nothing from jobs",
		"select 1 union select 2, 3",
		"select 1" + strings.Repeat(" + 1", 200),
		"select 1" + strings.Repeat(" union all select 1", 30),
		"select 1" + strings.Repeat(", 1", 300),
		"select coalesce(1" + strings.Repeat(", 1", 100) + ")",
		"commit",
		"rollback",
		"rollback to x",
		"release x",
		"begin nonsense",
		"savepoint",
		"select * from jobs, jobs, jobs where jobs.id",
		"end; ",
		"select * from json_each('{')",
		"select 'x' like printf('%.2000c', 'x')",
	},
	"ARGS_INVALID": {"select ?", "select ?2", "select :name", "select @a, $b"},
	"": {
		"select 1",
		"select * from jobs",
		"select payload, rowid from jobs where payload is not null",
		"select payload from job",
		"select * from job order by payload",
		"select * from payloads",
		"select max(data), min(data), count(data) from payloads",
		"select result, progress, last_error from outcomes",
		"select group_concat(result) from outcomes",
		"select * from keys",
		"select key || body, typeof(key), hex(key), quote(body) from keys",
		"select * from meta",
		"select v from meta where k = 'token_key'",
		"select v from meta where k = 'baton_key' or v is not null",
		"select * from meta, node_status",
		"with node_status as (select v from meta) select * from node_status",
		"with node_status as (select v as epoch, k as seq from 'meta') select * from node_status",
		"with queue_health as (select v as queue from [meta]) select * from queue_health",
		"with queue_health as (select payload as queue from jobs) select * from queue_health",
		"with dead_letters as (select key as id from keys) select * from dead_letters where id is not null",
		"with jobs_recent as (select data as last_error from payloads) select * from jobs_recent",
		"select (select v from meta where k = 'token_key') as v from node_status",
		"select * from (select result from outcomes) queue_health",
		"select case when payload like '%SECRET%' then 'yes' else 'no' end as x, * from jobs",
		"select id from jobs where payload > 'A' or instr(payload, 'SECRET')",
		"select id from jobs order by payload collate nocase, length(payload)",
		"select row_number() over (order by payload), lag(payload) over (order by id) from jobs",
		"select a.id from jobs a join jobs b on a.payload = b.payload",
		"select id from jobs where (id, payload) in (select id, payload from jobs)",
		"select id from jobs group by payload having max(payload) is not null",
		"select * from jobs where payload in ('x', '" + "SECRET" + "-PAYLOAD" + "') limit 0",
		"select sql from sqlite_schema",
		"select * from sqlite_master where name = 'keys'",
		"select * from pragma_table_info('keys')",
		"pragma table_info(jobs)",
		"pragma user_version",
		"explain select payload from jobs",
		"explain query plan select * from queue_health",
		"select " + strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200),
		"values (1), (2)",
		"with m as (select id from jobs) select count(*) from m a, m b",
		"with m(x) as materialized (select 1) select 2 from m",
		"select j.queue, h.oldest_queued_at_ms from queue_health h join jobs_recent j on j.queue = h.queue",
		"select id from jobs_recent where queue = 'natural' or queue = 'using'",
		"select 'a''b;c', \"id\", `queue`, [type] from jobs_recent",
		"begin",
		"begin transaction readonly",
		"BEGIN IMMEDIATE",
		"savepoint \"a b\"",
	},
}

func TestHostile(t *testing.T) {
	s, d := viewer(t, hrana.AccessView)
	made := watchFiles(t, d.dir, ".")
	n := 0
	for code, statements := range hostile {
		for _, sql := range statements {
			n++
			name := sql
			if len(name) > 70 {
				name = name[:70] + "…"
			}
			want := code
			if want == "" {
				want = "allowed"
			}
			t.Run(strings.ReplaceAll(name, "/", "∕")+" is "+want, func(t *testing.T) {
				s := &server{t, s.url}
				result, failed := s.query(sql)
				if got := failed; (got == nil) != (code == "") || got != nil && got.Code != code {
					t.Errorf("got %+v, want %s", got, want)
				}
				text, err := json.Marshal(result)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(text), "SECRET-") || strings.Contains(string(text), `"blob"`) {
					t.Errorf("it saw something hidden: %s", text)
				}
				if failed != nil && (strings.Contains(failed.Message, d.dir) || failed.Message == "") {
					t.Errorf("message %q", failed.Message)
				}
			})
		}
	}
	if n < 100 {
		t.Errorf("only %d statements", n)
	}
	if files := made(); len(files) > 0 {
		t.Errorf("files were made: %v", files)
	}
	if _, err := os.Stat("/tmp/holdfast-hostile.db"); err == nil {
		t.Error("a database was written")
	}
	if diff, err := d.queue.Recount(t.Context()); err != nil || len(diff) > 0 {
		t.Errorf("the database changed: %v, %v", diff, err)
	}
}

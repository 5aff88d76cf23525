package hrana

// What of the schema may be read, by base table. Views are listed so that they
// can be read from at all; what they show of their tables is decided by these.

// scope says who sees a column.
type scope uint8

const (
	forView    scope = iota // who may see the queue
	forPayload              // who may see payloads too
)

// tables are those that may be read, and their columns that not everyone
// sees. What is not here, such as tokens and the audit log, nobody reads.
var tables = map[string]map[string]scope{
	"jobs":        {"payload": forPayload},
	"payloads":    {"data": forPayload},
	"outcomes":    {"result": forPayload, "progress": forPayload},
	"keys":        {"key": forPayload, "body": forPayload},
	"job_runs":    nil,
	"queues":      nil,
	"types":       nil,
	"workers":     nil,
	"counts":      nil,
	"minutes":     nil,
	"last_errors": nil,
	"meta":        nil, // its column v: see guard.read

	"job":           nil,
	"run":           nil,
	"jobs_recent":   nil,
	"dead_letters":  nil,
	"queue_health":  nil,
	"throughput":    nil,
	"node_status":   nil,
	"sqlite_master": nil,

	"json_each":               nil,
	"json_tree":               nil,
	"pragma_table_info":       nil,
	"pragma_table_xinfo":      nil,
	"pragma_table_list":       nil,
	"pragma_index_list":       nil,
	"pragma_index_info":       nil,
	"pragma_index_xinfo":      nil,
	"pragma_foreign_key_list": nil,
}

// Views of the file that need more than others may have.
const (
	recursiveView = "queue_health" // finds the oldest job with one seek per priority
	epochView     = "node_status"  // reads a row of meta, which keeps secrets too
	secretsTable  = "meta"
	secretsColumn = "v"
)

// pragmas are those that describe the schema. Those with true take no
// argument: with one they would set something.
var pragmas = map[string]bool{
	"table_info": false, "table_xinfo": false, "table_list": false,
	"index_list": false, "index_info": false, "index_xinfo": false, "foreign_key_list": false,
	"user_version": true, "schema_version": true, "application_id": true, "encoding": true,
}

// functions are those that may be called. Those that make much out of little
// are left out, such as replace, zeroblob and json_group_array, and those whose
// time is the product of two lengths, which no interrupt reaches: trim, unhex.
var functions = func() map[string]bool {
	all := map[string]bool{asOfFunction: true}
	for _, name := range []string{
		"->", "->>", "abs", "avg", "ceil", "ceiling", "char", "coalesce", "concat", "concat_ws", "count", "cume_dist", "current_date",
		"current_time", "current_timestamp", "date", "datetime", "dense_rank", "first_value", "floor", "format", "glob", "group_concat",
		"hex", "ifnull", "iif", "if", "instr", "json", "json_array", "json_array_length", "json_error_position", "json_extract",
		"json_object", "json_quote", "json_type", "json_valid", "julianday", "lag", "last_value", "lead", "length", "like", "likelihood",
		"likely", "lower", "max", "min", "mod", "nth_value", "ntile", "nullif", "octet_length", "percent_rank", "printf",
		"quote", "random", "rank", "round", "row_number", "sign", "sqlite_version", "strftime", "string_agg", "substr",
		"substring", "sum", "time", "timediff", "total", "trunc", "typeof", "unicode", "unixepoch", "unlikely", "upper",
		"changes", "last_insert_rowid", "total_changes",
	} {
		all[name] = true
	}
	return all
}()

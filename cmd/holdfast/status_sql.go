package main

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/tursodatabase/libsql-client-go/libsql"
	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/node/client"
)

// sqlTimeout bounds a status by SQL: libsql-client-go has no timeout of its own.
const sqlTimeout = 10 * time.Second

// healthBySQL is one statement, so that all of it is of one moment.
const healthBySQL = `select s.epoch, s.seq, cast(unixepoch('subsec') * 1000 as integer) - as_of_ms(),
 h.queue, h.paused, h.scheduled, h.queued, h.running, h.done, h.dead, h.oldest_queued_at_ms, h.last_error, h.last_error_at_ms
 from node_status s left join queue_health h on ? in ('', h.queue) order by h.queue`

// statusBySQL is status from where a node serves SQL, by the client that any Go
// program would use.
func statusBySQL(c *cli.Context, from string) error {
	if err := wantArgs(c, 0, 1); err != nil {
		return err
	}
	queue, rest := queueGiven(c)
	if len(rest) > 0 {
		return givenTwice(c, rest[0])
	}
	db, err := openLibSQL(c, from)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(c.Context, sqlTimeout)
	defer cancel()
	health, err := readHealth(ctx, db, queue)
	if err != nil {
		return asClientError(from, err)
	}
	if queue != "" && len(health.Queues) == 0 {
		all, err := readHealth(ctx, db, "")
		if err != nil {
			return asClientError(from, err)
		}
		return noQueue(queue, all.Queues)
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, health)
	}
	return printHealth(c, from, health)
}

// noQueue is the error of a node for a queue that is not one of those there.
func noQueue(name string, there []client.QueueHealth) error {
	names := make([]string, len(there))
	for i := range there {
		names[i] = there[i].Name
	}
	return &client.Error{Status: http.StatusNotFound, Code: client.CodeNotFound, Message: node.NoQueueText(name, names)}
}

func openLibSQL(c *cli.Context, from string) (*sql.DB, error) {
	u, err := url.Parse(from)
	if err != nil || u.Host == "" {
		return nil, usagef("--from: %q is not a URL such as libsql://edge.example", from)
	}
	query := u.Query()
	secure := query.Get("tls") != "0"
	if !query.Has("tls") && isThisMachine(u.Hostname()) {
		secure = false // a node without a certificate serves this machine only
	}
	u.RawQuery = ""
	if !secure && u.Port() == "" {
		return nil, usagef("--from: %s needs a port, as it has no https", from)
	}
	roots, err := trust(c)
	if err != nil {
		return nil, err
	}
	if transport, ok := http.DefaultTransport.(*http.Transport); ok && roots != nil {
		transport.TLSClientConfig = roots // the client has no other way
	}
	opts := []libsql.Option{libsql.WithTls(secure)}
	if token := tokenFor(c, from); token != "" {
		opts = append(opts, libsql.WithAuthToken(token))
	}
	connector, err := libsql.NewConnector(u.String(), opts...)
	if err != nil {
		return nil, usagef("--from: %v", err)
	}
	return sql.OpenDB(connector), nil
}

func isThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func readHealth(ctx context.Context, db *sql.DB, queue string) (client.Health, error) {
	health := client.Health{Queues: []client.QueueHealth{}}
	rows, err := db.QueryContext(ctx, healthBySQL, queue)
	if err != nil {
		return health, err
	}
	defer rows.Close()
	for rows.Next() {
		var q client.QueueHealth
		var name sql.NullString
		var paused, scheduled, queued, running, done, dead sql.NullInt64
		r := &health.Replication
		if err := rows.Scan(&r.Epoch, &r.Seq, &r.LagMS, &name, &paused, &scheduled, &queued, &running, &done, &dead,
			&q.OldestQueuedAtMS, &q.LastError, &q.LastErrorAtMS); err != nil {
			return health, err
		}
		if !name.Valid {
			continue // there is no queue
		}
		q.Name, q.Paused, q.Scheduled, q.Queued = name.String, paused.Int64 != 0, scheduled.Int64, queued.Int64
		q.Running, q.Done, q.Dead = running.Int64, done.Int64, dead.Int64
		health.Queues = append(health.Queues, q)
	}
	return health, rows.Err()
}

var httpStatus = regexp.MustCompile(`error code (\d{3}): (.*)`)

// asClientError turns an error of libsql-client-go, which has no types, into
// one of the API's, so that it ends with the same exit code.
func asClientError(from string, err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok || errors.Is(err, context.DeadlineExceeded) {
		return &client.UnreachableError{URL: from, Err: err}
	}
	m := httpStatus.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	message := strings.TrimSpace(m[2])
	switch m[1] {
	case "401":
		return &client.Error{Status: http.StatusUnauthorized, Code: client.CodeUnauthorized, Message: message}
	case "403":
		return &client.Error{Status: http.StatusForbidden, Code: client.CodeForbidden, Message: message}
	case "503":
		return &client.Error{Status: http.StatusServiceUnavailable, Code: client.CodeUnavailable, Message: message}
	}
	return err
}

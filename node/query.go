package node

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"holdfast/queue"
)

// listParams are the query parameters of GET /v1/jobs.
var listParams = []string{"queue", "state", "type", "tag", "error", "after", "limit", "payload", "archived"}

// checkParams refuses a query that has a parameter that the route does not
// know, or has one twice: a misspelled filter must not select everything.
func checkParams(r *http.Request, known []string) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("the query string is malformed")
	}
	for name, value := range values {
		if !slices.Contains(known, name) {
			if len(known) == 0 {
				return invalid("%.200s: unknown query parameter; there are none here", name)
			}
			return invalid("%.200s: unknown query parameter; known are %s", name, strings.Join(known, ", "))
		}
		if len(value) > 1 {
			return invalid("%s: given more than once", name)
		}
	}
	return nil
}

// filterOf reads the query of GET /v1/jobs, which checkParams has passed.
func filterOf(r *http.Request) (queue.Filter, error) {
	values := r.URL.Query()
	f := queue.Filter{
		Queue:   values.Get("queue"),
		Type:    values.Get("type"),
		Tag:     values.Get("tag"),
		ErrorFP: values.Get("error"),
		After:   values.Get("after"),
	}
	var err error
	if name := values.Get("state"); name != "" {
		if f.State, err = queue.ParseState(name); err != nil {
			return f, err
		}
	}
	if limit := values.Get("limit"); limit != "" {
		f.Limit, err = strconv.Atoi(limit)
		if err != nil || f.Limit < 1 || f.Limit > queue.MaxPage {
			return f, invalid("limit: %.40q is not a number from 1 to %d", limit, queue.MaxPage)
		}
	}
	if f.WithPayload, err = flagOf(values, "payload"); err != nil {
		return f, err
	}
	f.Archived, err = flagOf(values, "archived")
	return f, err
}

func flagOf(values url.Values, name string) (bool, error) {
	switch value := values.Get(name); value {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, invalid("%s: %.40q is neither true nor false", name, value)
	}
}

// jobID reads the id in the path.
func jobID(r *http.Request) (int64, error) {
	text := r.PathValue("id")
	id, ok := parseID(text)
	if !ok {
		return 0, invalid("id: %.40q is not a job's id, which is a decimal number", text)
	}
	return id, nil
}

// parseID accepts digits alone; strconv would take a sign too.
func parseID(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil
}

// leaseNames reports whether a lease token, "epoch.id.run.MAC", is one of the
// job id. Whether it is good is for the queue to say.
func leaseNames(lease string, id int64) bool {
	parts := strings.Split(lease, ".")
	if len(parts) != 4 {
		return false
	}
	named, ok := parseID(parts[1])
	return ok && named == id
}

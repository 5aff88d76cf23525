package node

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/queue"
)

const defaultPage = 100 // jobs of a list whose request names no limit

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

// waitOf reads wait_ms.
func waitOf(r *http.Request) (time.Duration, error) {
	ms, err := numberOf(r.URL.Query(), "wait_ms")
	if err != nil {
		return 0, err
	}
	return millis("wait_ms", ms, 0, queue.MaxWait)
}

// numberOf reads a parameter that is a number; 0 when it is absent.
func numberOf(values url.Values, name string) (int64, error) {
	text := values.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, invalid("%s: %.40q is not an integer", name, text)
	}
	return n, nil
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

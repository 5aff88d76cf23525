package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	shownGroups = 50
	defaultPace = 10   // jobs a second
	maxPace     = 1000 // jobs a second, which is also the most in a step
	countTime   = 2 * time.Second
)

// deadFilter is a filter of dead jobs as a query or a form has it.
type deadFilter struct {
	Queue, Type, Error string
	Since, Before      string // RFC 3339, or as a field of the type datetime-local has it, in UTC
}

func deadFilterOf(values url.Values) deadFilter {
	return deadFilter{
		Queue: values.Get("queue"), Type: values.Get("type"), Error: values.Get("error"),
		Since: values.Get("since"), Before: values.Get("before"),
	}
}

// Any reports whether it selects all dead jobs.
func (f deadFilter) Any() bool { return f == deadFilter{} }

// Query is the filter as a query string, with its question mark.
func (f deadFilter) Query() (any, error) {
	return query("queue", f.Queue, "type", f.Type, "error", f.Error, "since", f.Since, "before", f.Before)
}

func (f deadFilter) filter() (Filter, error) {
	out := Filter{Queue: f.Queue, State: "dead", Type: f.Type, Error: f.Error}
	var err error
	if out.Since, err = parseTime("since", f.Since); err != nil {
		return out, err
	}
	out.Before, err = parseTime("before", f.Before)
	return out, err
}

func parseTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339Nano} {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return t, nil
		}
	}
	return time.Time{}, &Error{http.StatusBadRequest, fmt.Sprintf("%s: %.40q is not a time such as 2026-11-30T14:05, in UTC.", field, text)}
}

// dead is GET /dead, the workbench.
func (h *Handler) dead(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	p := struct {
		base
		Filter deadFilter
		Groups Groups
		Queues []Queue
		List   jobList
	}{base: h.newPage(r, v, "Dead letters"), Filter: deadFilterOf(r.URL.Query())}
	if v.Away != "" {
		return h.render(w, http.StatusOK, "away", p.base)
	}
	f, err := p.Filter.filter()
	if err != nil {
		return err
	}
	if p.Queues, err = v.Reader.Queues(r.Context()); err != nil {
		return err
	}
	for _, q := range p.Queues {
		p.Dead += q.Dead
	}
	f.Limit = shownGroups
	if p.Groups, err = v.Reader.DeadGroups(r.Context(), f); err != nil {
		return err
	}
	if p.Filter.Any() { // the groups are enough
		return h.render(w, http.StatusOK, "dead", p)
	}
	f.After, f.Limit = r.URL.Query().Get("after"), shownJobs
	page, err := v.Reader.Jobs(r.Context(), f)
	if err != nil {
		return err
	}
	p.List = jobList{Jobs: page.Jobs, State: "dead", Short: page.Next != "" && len(page.Jobs) < f.Limit}
	if page.Next != "" {
		p.List.Next = linkTo(r.URL, "after", page.Next)
	}
	if f.After != "" {
		p.List.First = linkTo(r.URL, "after", "")
	}
	return h.render(w, http.StatusOK, "dead", p)
}

// bulkPage is the page of many jobs that are retried or archived, before,
// during and after.
type bulkPage struct {
	base
	Action  BulkAction
	Filter  deadFilter
	Groups  Groups
	Total   int  // that the dry run counted
	AtLeast bool // there are more
	Pace    int
	After   string // the cursor; empty before and after
	Changed int
	Began   bool
	Over    bool
}

func actionOf(r *http.Request) (BulkAction, error) {
	switch a := BulkAction(r.PathValue("action")); a {
	case BulkRetry, BulkArchive:
		return a, nil
	}
	return "", &Error{http.StatusNotFound, "There is no such page."}
}

// Total64 and Changed64 are for the templates' words.
func (p *bulkPage) Total64() int64   { return int64(p.Total) }
func (p *bulkPage) Changed64() int64 { return int64(p.Changed) }

// BackQuery is the filter as the workbench had it: without the time of the dry
// run, which would hide what died since.
func (p *bulkPage) BackQuery() (any, error) {
	f := p.Filter
	if strings.HasSuffix(f.Before, "Z") { // as the form never has it
		f.Before = ""
	}
	return f.Query()
}

// Verb is what is done, to begin a sentence.
func (p *bulkPage) Verb() string {
	if p.Action == BulkArchive {
		return "Archive"
	}
	return "Retry"
}

// Did is what was done.
func (p *bulkPage) Did() string {
	if p.Action == BulkArchive {
		return "archived"
	}
	return "retried"
}

// Percent is how much is done.
func (p *bulkPage) Percent() int {
	if p.Over || p.Total == 0 {
		return 100
	}
	return min(100*p.Changed/p.Total, 99)
}

// confirmDead is GET /dead/{action}: a dry run says how many jobs it touches.
func (h *Handler) confirmDead(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	edit, err := v.editor()
	if err != nil {
		return err
	}
	p := bulkPage{base: h.newPage(r, v, ""), Filter: deadFilterOf(r.URL.Query()), Pace: defaultPace}
	if p.Action, err = actionOf(r); err != nil {
		return err
	}
	p.countDead(r, v)
	p.Live = false
	if p.Filter.Before == "" { // jobs that die from now on are not meant; those of this millisecond are
		p.Filter.Before = p.Now.UTC().Add(time.Millisecond).Format("2006-01-02T15:04:05.000Z")
	}
	f, err := p.Filter.filter()
	if err != nil {
		return err
	}
	if p.Total, p.AtLeast, err = h.dryRun(r, edit, p.Action, f); err != nil {
		return err
	}
	f.Limit = 1
	if p.Groups, err = v.Reader.DeadGroups(r.Context(), f); err != nil {
		return err
	}
	p.Title = p.Verb() + " " + plural(int64(p.Total), "dead job", "dead jobs")
	return h.render(w, http.StatusOK, "bulk", &p)
}

// dryRun counts, for as long as a page may take.
func (h *Handler) dryRun(r *http.Request, edit Editor, action BulkAction, f Filter) (total int, more bool, err error) {
	for until := h.now().Add(countTime); ; {
		n, next, err := edit.Bulk(r.Context(), action, f, true)
		if err != nil {
			return 0, false, err
		}
		total += n
		if next == "" || h.now().After(until) {
			return total, next != "", nil
		}
		f.After = next
	}
}

// stepDead is POST /dead/{action}: one step. The page that it answers with asks
// for the next, which the script does at the pace, and a person without it by
// hand.
func (h *Handler) stepDead(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	edit, err := v.editor()
	if err != nil {
		return err
	}
	if err := r.ParseForm(); err != nil {
		return badForm(err)
	}
	form := r.PostForm
	p := bulkPage{
		base: h.newPage(r, v, ""), Filter: deadFilterOf(form), Began: true,
		Pace: formNumber(form, "pace", defaultPace, maxPace), Total: formNumber(form, "total", 0, 1<<40), Changed: formNumber(form, "changed", 0, 1<<40),
		AtLeast: form.Get("more") != "",
	}
	if p.Action, err = actionOf(r); err != nil {
		return err
	}
	p.Live = false
	f, err := p.Filter.filter()
	if err != nil {
		return err
	}
	f.After, f.Limit = form.Get("after"), max(p.Pace, 1)
	n, next, err := edit.Bulk(r.Context(), p.Action, f, false)
	if err != nil {
		return err
	}
	p.Changed, p.After, p.Over = p.Changed+n, next, next == ""
	p.countDead(r, v)
	p.Title = fmt.Sprintf("%s %s", plural(int64(p.Changed), "job", "jobs"), p.Did())
	return h.render(w, http.StatusOK, "bulk", &p)
}

// formNumber reads a number from 0 to most; what is none counts as otherwise.
func formNumber(form url.Values, name string, otherwise, most int) int {
	n, err := strconv.Atoi(form.Get(name))
	if err != nil || n < 0 {
		return otherwise
	}
	return min(n, most)
}

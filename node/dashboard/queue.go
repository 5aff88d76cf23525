package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// shownJobs is the length of a page of a list.
const shownJobs = 25

// states are those that a list can be of.
var states = []string{"queued", "running", "scheduled", "dead", "done", "cancelled"}

// queue is GET /queues/{queue}.
func (h *Handler) queue(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	p := struct {
		base
		Queue Queue
		Rate  rate
		Chart chart
		List  jobList
	}{base: h.newPage(r, v, r.PathValue("queue"))}
	if v.Away != "" {
		return h.render(w, http.StatusOK, "away", p.base)
	}
	var err error
	if p.Queue, err = p.find(r, v, r.PathValue("queue")); err != nil {
		return err
	}
	span := spanOf(r)
	minutes, err := v.Reader.Minutes(r.Context(), p.Queue.Name, span.since(p.Now))
	if err != nil {
		return err
	}
	p.Chart, p.Rate = newChart(minutes, span, p.Now), ratesOf(minutes, p.Now)[p.Queue.Name]
	if p.List, err = listOf(r, v, Filter{Queue: p.Queue.Name}); err != nil {
		return err
	}
	return h.render(w, http.StatusOK, "queue", p)
}

// find returns a queue, and counts the dead of all.
func (b *base) find(r *http.Request, v *Visitor, name string) (Queue, error) {
	queues, err := v.Reader.Queues(r.Context())
	if err != nil {
		return Queue{}, err
	}
	for _, q := range queues {
		b.Dead += q.Dead
	}
	i := slices.IndexFunc(queues, func(q Queue) bool { return q.Name == name })
	if i < 0 {
		return Queue{}, &Error{http.StatusNotFound, fmt.Sprintf("There is no queue %.140q. A queue comes into being with its first job.", name)}
	}
	return queues[i], nil
}

// jobList is a page of a list of jobs.
type jobList struct {
	Jobs   []Job
	State  string
	States []string
	Type   string
	Next   string // link to the next page; empty: there is none
	First  string // link to the first page; empty: this is it
	Short  bool   // the search stopped before the page was full
}

// listOf reads the page of a list that the query asks for.
func listOf(r *http.Request, v *Visitor, f Filter) (jobList, error) {
	values := r.URL.Query()
	f.State, f.Type, f.After, f.Limit = values.Get("state"), values.Get("type"), values.Get("after"), shownJobs
	if f.State != "" && !slices.Contains(states, f.State) {
		f.State = ""
	}
	page, err := v.Reader.Jobs(r.Context(), f)
	if err != nil {
		return jobList{}, err
	}
	l := jobList{Jobs: page.Jobs, State: f.State, States: states, Type: f.Type, Short: page.Next != "" && len(page.Jobs) < f.Limit}
	if page.Next != "" {
		l.Next = linkTo(r.URL, "after", page.Next)
	}
	if f.After != "" {
		l.First = linkTo(r.URL, "after", "")
	}
	return l, nil
}

// linkTo is a link to the same page with one parameter changed.
func linkTo(u *url.URL, name, value string) string {
	values := u.Query()
	values.Set(name, value)
	if value == "" {
		values.Del(name)
	}
	return (&url.URL{Path: u.Path, RawQuery: values.Encode()}).String()
}

// confirmQueue is GET /queues/{queue}/pause: the step in between.
func (h *Handler) confirmQueue(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	p := confirmation{base: h.newPage(r, v, "Pause "+r.PathValue("queue"))}
	if r.PathValue("action") != "pause" {
		return &Error{http.StatusNotFound, "There is no such page."}
	}
	if _, err := v.editor(); err != nil {
		return err
	}
	q, err := p.find(r, v, r.PathValue("queue"))
	if err != nil {
		return err
	}
	p.Live = false
	p.Question = "Pause the queue " + q.Name + "?"
	p.Says = []string{
		plural(q.Queued, "job waits", "jobs wait") + " in it, and will until it is resumed; new ones are accepted meanwhile.",
		plural(q.Running, "job runs", "jobs run") + " and may finish.",
	}
	p.Action, p.Button, p.Back = r.URL.Path, "Pause the queue", queueLink(q.Name)
	return h.render(w, http.StatusOK, "confirm", p)
}

// confirmation is the page between the wish and the deed.
type confirmation struct {
	base
	Question     string
	Says         []string
	Action, Back string // links
	Button       string
	Danger       bool
}

// changeQueue is POST /queues/{queue}/pause and …/resume.
func (h *Handler) changeQueue(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	edit, err := v.editor()
	if err != nil {
		return err
	}
	name, action := r.PathValue("queue"), r.PathValue("action")
	if action != "pause" && action != "resume" {
		return &Error{http.StatusNotFound, "There is no such action."}
	}
	if err := edit.Pause(r.Context(), name, action == "pause"); err != nil {
		return err
	}
	http.Redirect(w, r, queueLink(name), http.StatusSeeOther)
	return nil
}

func queueLink(name string) string { return "/queues/" + url.PathEscape(name) }

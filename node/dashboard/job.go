package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// jobs is GET /jobs?id=: the form that looks for a job.
func (h *Handler) jobs(w http.ResponseWriter, r *http.Request, _ *Visitor) error {
	id := strings.TrimPrefix(strings.TrimSpace(r.URL.Query().Get("id")), "#")
	if _, err := strconv.ParseUint(id, 10, 63); err != nil {
		return &Error{http.StatusBadRequest, "The id of a job is a decimal number, such as 42."}
	}
	http.Redirect(w, r, "/jobs/"+id, http.StatusSeeOther)
	return nil
}

// jobPage is a job's page.
type jobPage struct {
	base
	Job      Job
	Timeline []moment
	Payload  string // for the form
	Editable bool   // the payload fits into the form, and may be seen
	Problem  string // with what the form was sent
}

// job is GET /jobs/{id}.
func (h *Handler) job(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	if v.Away != "" {
		return h.render(w, http.StatusOK, "away", h.newPage(r, v, "Job"))
	}
	p, err := h.newJobPage(r, v)
	if err != nil {
		return err
	}
	return h.render(w, http.StatusOK, "job", p)
}

func (h *Handler) newJobPage(r *http.Request, v *Visitor) (*jobPage, error) {
	job, err := jobOf(r, v)
	if err != nil {
		return nil, err
	}
	p := &jobPage{base: h.newPage(r, v, fmt.Sprintf("Job %d", job.ID)), Job: job}
	p.countDead(r, v)
	p.Timeline = timeline(&job)
	p.Editable = v.Payloads && len(job.Payload) <= shownJSON
	if p.Editable {
		p.Payload = pretty(job.Payload)
	}
	return p, nil
}

func jobOf(r *http.Request, v *Visitor) (Job, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 0 {
		return Job{}, &Error{http.StatusNotFound, "There is no such job: an id is a decimal number."}
	}
	return v.Reader.Job(r.Context(), id)
}

// Rows is how many lines the form has for the payload.
func (p *jobPage) Rows() int { return min(max(strings.Count(p.Payload, "\n")+2, 4), 24) }

// moment is an entry of a job's timeline.
type moment struct {
	At     time.Time
	Title  string
	Kind   string // the class that colours it
	Worker string
	Error  string
	Took   time.Duration // of a run; negative: it is none
}

// timeline is what happened to a job, oldest first. Of the runs that ended well
// only the last is known.
func timeline(j *Job) []moment {
	out := []moment{{At: j.CreatedAt, Title: "Enqueued", Kind: "enqueued", Took: -1}}
	last := int64(0)
	for _, r := range j.Runs {
		out = append(out, moment{
			At: r.StartedAt, Title: fmt.Sprintf("Run %d %s", r.Run, r.Outcome), Kind: r.Outcome, Worker: r.Worker, Error: r.Error,
			Took: r.EndedAt.Sub(r.StartedAt),
		})
		last = r.Run
	}
	switch {
	case j.State == "running":
		out = append(out, moment{At: j.StartedAt, Title: fmt.Sprintf("Run %d began", j.Run), Kind: "running", Worker: j.Worker, Took: -1})
	case j.State == "done":
		took := time.Duration(-1)
		if !j.StartedAt.IsZero() {
			took = j.FinishedAt.Sub(j.StartedAt)
		}
		out = append(out, moment{At: j.FinishedAt, Title: fmt.Sprintf("Run %d done", max(j.Run, last)), Kind: "done", Worker: j.Worker, Took: took})
	case j.State == "dead":
		out = append(out, moment{At: j.FinishedAt, Title: "Dead", Kind: "dead", Took: -1})
	case j.State == "cancelled":
		out = append(out, moment{At: j.FinishedAt, Title: "Cancelled", Kind: "cancelled", Took: -1})
	case j.State == "scheduled":
		out = append(out, moment{At: j.RunAt, Title: fmt.Sprintf("Attempt %d is due", j.Attempt), Kind: "scheduled", Took: -1})
	}
	if !j.ArchivedAt.IsZero() && j.State == "dead" {
		out = append(out, moment{At: j.ArchivedAt, Title: "Archived", Kind: "archived", Took: -1})
	}
	return out
}

// confirmJob is GET /jobs/{id}/{action}: the step in between.
func (h *Handler) confirmJob(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	if _, err := v.editor(); err != nil {
		return err
	}
	job, err := jobOf(r, v)
	if err != nil {
		return err
	}
	link := fmt.Sprintf("/jobs/%d", job.ID)
	p := confirmation{Action: r.URL.Path, Back: link, Danger: true}
	touches := "This touches 1 job"
	switch r.PathValue("action") {
	case "cancel":
		p.Question, p.Button = fmt.Sprintf("Cancel job %d?", job.ID), "Cancel 1 job"
		p.Says = []string{touches + ", which is " + job.State + ". It will not run again.", "A running job is cancelled once its worker hears of it, unless it is done before."}
	case "archive":
		p.Question, p.Button, p.Danger = fmt.Sprintf("Archive job %d?", job.ID), "Archive 1 job", false
		p.Says = []string{touches + ". It leaves the lists and counts of dead jobs, and can still be retried from its page."}
	case "delete":
		p.Question, p.Button = fmt.Sprintf("Delete job %d?", job.ID), "Delete 1 job"
		p.Says = []string{touches + ", its payload, its result and its runs. Nothing brings it back."}
	default:
		return &Error{http.StatusNotFound, "There is no such page."}
	}
	p.base = h.newPage(r, v, strings.TrimSuffix(p.Question, "?"))
	p.countDead(r, v)
	p.Live = false
	return h.render(w, http.StatusOK, "confirm", p)
}

// changeJob is POST /jobs/{id}/{action}.
func (h *Handler) changeJob(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	edit, err := v.editor()
	if err != nil {
		return err
	}
	job, err := jobOf(r, v)
	if err != nil {
		return err
	}
	to := fmt.Sprintf("/jobs/%d", job.ID)
	switch r.PathValue("action") {
	case "retry":
		return h.retryJob(w, r, v, edit, &job)
	case "cancel":
		err = edit.Cancel(r.Context(), job.ID)
	case "archive":
		err = edit.Archive(r.Context(), job.ID)
	case "delete":
		err, to = edit.Delete(r.Context(), job.ID), queueLink(job.Queue)
	default:
		err = &Error{http.StatusNotFound, "There is no such action."}
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// retryJob retries a job, with the payload of the form if that is another one.
// What is wrong with it is said beside the form, which keeps what was typed.
func (h *Handler) retryJob(w http.ResponseWriter, r *http.Request, v *Visitor, edit Editor, job *Job) error {
	if err := r.ParseForm(); err != nil {
		return badForm(err)
	}
	var payload json.RawMessage
	if text := strings.TrimSpace(r.PostForm.Get("payload")); text != "" && !sameJSON(text, job.Payload) {
		payload = json.RawMessage(text)
	}
	err := edit.Retry(r.Context(), job.ID, payload)
	wrong, ok := errors.AsType[*Error](err)
	if ok && wrong.Status < http.StatusInternalServerError {
		p, err := h.newJobPage(r, v)
		if err != nil {
			return err
		}
		p.Problem = wrong.Message
		if payload != nil {
			p.Payload = string(payload)
		}
		p.Path, p.Live = fmt.Sprintf("/jobs/%d", job.ID), false
		return h.render(w, wrong.Status, "job", p)
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, fmt.Sprintf("/jobs/%d", job.ID), http.StatusSeeOther)
	return nil
}

// sameJSON compares without regard to white space.
func sameJSON(text string, old json.RawMessage) bool {
	var a, b bytes.Buffer
	return json.Compact(&a, []byte(text)) == nil && json.Compact(&b, old) == nil && bytes.Equal(a.Bytes(), b.Bytes())
}

func badForm(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &Error{http.StatusRequestEntityTooLarge, "The form is too large. A payload has up to 1 MiB."}
	}
	return &Error{http.StatusBadRequest, "The form could not be read. Go back, load the page again and send it once more."}
}

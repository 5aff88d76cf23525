package node

import (
	"errors"
	"fmt"
	"strings"

	"holdfast/node/client"
	"holdfast/queue"
)

// LeaseGiver is a [Store] that knows the lease tokens that it gave from others.
type LeaseGiver interface {
	GaveLease(token string) bool
}

var _ LeaseGiver = (*queue.Queue)(nil)

// errNoLease is for a token that no claim gave. To a program it is a lease that
// is lost; a person has to know that no waiting and no new claim mends it.
var errNoLease = &apiError{
	code:    client.CodeLeaseLost,
	message: "this is no lease that a claim here gave: send the whole lease, as the claim gave it",
}

// gave reports whether a lease token is one of the store's own, which may have
// ended since.
func gave(s Store, lease string) bool {
	giver, ok := s.(LeaseGiver)
	return !ok || giver.GaveLease(lease)
}

// neverGiven tells, in the results of a batch, the leases that no claim gave
// from those that are lost.
func neverGiven(s Store, leases []string, results []queue.Result) {
	for i := range results {
		if errors.Is(results[i].Err, queue.ErrLeaseLost) && !gave(s, leases[i]) {
			results[i].Err = errNoLease
		}
	}
}

// checkLease refuses a lease that does not name the job id. Whether it is good
// is for the queue to say.
func checkLease(s Store, lease string, id int64) error {
	named, ok := jobOfLease(lease)
	switch {
	case lease == "":
		return &queue.SpecError{Field: "lease", Reason: "is required"}
	case ok && named == id:
		return nil
	case !ok || !gave(s, lease):
		return errNoLease
	}
	return &apiError{code: client.CodeLeaseLost, message: fmt.Sprintf("this is a lease of job %d, and not of job %d", named, id)}
}

// jobOfLease returns the job that a lease token, "epoch.id.run.MAC", names.
// Whether the token is good is for the queue to say.
func jobOfLease(lease string) (int64, bool) {
	parts := strings.Split(lease, ".")
	if len(parts) != 4 {
		return 0, false
	}
	return parseID(parts[1])
}

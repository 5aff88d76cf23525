package node_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
	"holdfast/replicate"
)

func TestStandbyTellsHowFarItsCopyIs(t *testing.T) {
	f := over(t, &stub{})
	f.api.Identify(client.Node{Node: "b", Role: client.RoleStandby, Epoch: 6})
	f.api.Standby("a", "http://a.example:7780")
	if n := call[client.Node](f, http.StatusOK, "GET", "/v1/node", ""); n.Follows != nil {
		t.Errorf("before it follows: %+v", n.Follows)
	}
	var st replicate.FollowStatus
	f.api.Follow(func() replicate.FollowStatus { return st })
	ready := func(want string) {
		t.Helper()
		r := call[client.Ready](f, http.StatusServiceUnavailable, "GET", "/readyz", "")
		if len(r.Reasons) != 2 || !strings.Contains(r.Reasons[0], `node "a" is the primary`) || !strings.Contains(r.Reasons[1], want) {
			t.Errorf("readyz: %q, want %q", r.Reasons, want)
		}
	}
	ready("no copy of the database yet")
	st = replicate.FollowStatus{Newest: 0x1f6, Position: replicate.Position{Epoch: 6, TXID: 0x1f4, AsOf: time.Now().Add(-3 * time.Second)}}
	ready("epoch 6 up to TXID 00000000000001f4 of 00000000000001f6")
	n := call[client.Node](f, http.StatusOK, "GET", "/v1/node", "").Follows
	if n == nil || n.Epoch != 6 || n.TXID != "00000000000001f4" || n.NewestTXID != "00000000000001f6" || *n.LagMS < 3000 || n.Problem != nil {
		t.Errorf("got %+v", n)
	}
	st.Problem = "no route"
	ready("held up: no route")
	if n := call[client.Node](f, http.StatusOK, "GET", "/v1/node", "").Follows; n.Problem == nil || *n.Problem != "no route" {
		t.Errorf("got %+v", n)
	}
	f.api.Open(&stub{})
	if r := call[client.Ready](f, http.StatusOK, "GET", "/readyz", ""); !r.Ready || slices.ContainsFunc(r.Reasons, func(s string) bool { return strings.Contains(s, "copy") }) {
		t.Errorf("as the primary: %+v", r)
	}
	if n := call[client.Node](f, http.StatusOK, "GET", "/v1/node", ""); n.Follows != nil {
		t.Errorf("as the primary: %+v", n.Follows)
	}
}

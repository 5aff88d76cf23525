package node

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"holdfast/node/client"
	"holdfast/node/dashboard"
)

// Node implements [dashboard.Reader].
func (p *pageReader) Node(ctx context.Context) (dashboard.Node, error) {
	a, now := p.api, time.Now()
	n := dashboard.Node{Role: "starting", Version: a.version.Version}
	if self := a.self.Load(); self != nil {
		n.Name, n.Role, n.URL, n.Session, n.Epoch = self.Node, self.Role, self.URL, self.Session, self.Epoch
	}
	if url := a.primary.Load(); url != nil {
		n.Primary = *url
	} else if a.copies != nil {
		n.Primary = a.copies.primary()
	}
	if a.copies != nil {
		n.Primary = a.copies.primary()
	}
	reasons := a.reasons.Load()
	if n.Ready = reasons == nil && !a.lost(); !n.Ready && reasons != nil {
		n.NotReady = strings.Join(*reasons, "; ")
	}
	if f := a.following(now); f != nil {
		n.Copy = copyOf(f)
	}
	if st, ok := a.status(); ok && a.copies != nil {
		n.Copy = &dashboard.Copy{Epoch: st.Epoch, TXID: txidText(st.TXID), Newest: txidText(st.TXID), AsOf: st.PendingSince, Problem: st.LastError}
	} else if ok {
		n.Replica = &dashboard.Replica{
			URL: st.URL, ReplicatedSeq: st.ReplicatedSeq, TXID: txidText(st.TXID), Lag: st.Lag(now), LastSyncAt: st.LastSyncAt, LastSnapshotAt: st.LastSnapshot,
			LastError: st.LastError, LastErrorAt: st.LastErrorAt, Offline: st.Offline,
			Put: st.Requests.Put, Get: st.Requests.Get, List: st.Requests.List, Delete: st.Requests.Delete,
		}
	}
	if p.store == nil {
		return n, nil
	}
	seq := (*p.store).Seq()
	n.Epoch, n.Seq = seq.Epoch, seq.N
	n.DBBytes, n.WALBytes = a.sizes()
	n.Signals = p.signals(ctx, now)
	return n, nil
}

func copyOf(f *client.Follows) *dashboard.Copy {
	c := &dashboard.Copy{Epoch: f.Epoch, TXID: f.TXID, Newest: f.NewestTXID}
	if f.AsOfMS != nil {
		c.AsOf = time.UnixMilli(*f.AsOfMS)
	}
	if f.Problem != nil {
		c.Problem = *f.Problem
	}
	return c
}

// settingFacts are a queue's settings in words.
func settingFacts(q client.Queue) []dashboard.Fact {
	s, own := q.Settings, q.OwnSettings
	if s == nil {
		return nil
	}
	if own == nil {
		own = &client.QueueSettings{}
	}
	span := func(ms int64) string {
		if ms < 0 {
			return "for ever"
		}
		return dashboard.Span(time.Duration(ms) * time.Millisecond)
	}
	facts := []dashboard.Fact{
		{Name: "Attempts", Value: strconv.Itoa(s.MaxAttempts), Own: own.MaxAttempts != 0},
		{Name: "Timeout of a run", Value: span(s.TimeoutMS), Own: own.TimeoutMS != 0},
		{Name: "Lease", Value: span(s.LeaseMS), Own: own.LeaseMS != 0},
	}
	if b := s.Backoff; b != nil {
		facts = append(facts, dashboard.Fact{Name: "Back-off", Value: fmt.Sprintf("%s, from %s to %s", b.Kind, span(b.BaseMS), span(b.MaxMS)), Own: own.Backoff != nil})
	}
	facts = append(facts, dashboard.Fact{Name: "Durability", Value: s.Durability, Own: own.Durability != ""})
	if s.MaxDepth > 0 {
		facts = append(facts, dashboard.Fact{Name: "Depth limit", Value: strconv.FormatInt(s.MaxDepth, 10), Own: true})
	}
	for _, state := range finalStates {
		name := state.String()
		value := "kept " + span(s.RetentionMS[name])
		if n := s.KeepLast[name]; n > 0 {
			value += fmt.Sprintf(", the last %d", n)
		}
		_, age := own.RetentionMS[name]
		_, last := own.KeepLast[name]
		facts = append(facts, dashboard.Fact{Name: "Jobs " + name, Value: value, Own: age || last})
	}
	return facts
}

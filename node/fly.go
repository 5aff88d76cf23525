package node

import (
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Fly.io's proxy sends a request that was answered with this header once more,
// to another machine; it keeps bodies up to a limit for that. What it sends
// again carries the other header, which says from where.
// https://fly.io/docs/networking/dynamic-request-routing/
const (
	flyReplay     = "Fly-Replay"
	flyReplaySrc  = "Fly-Replay-Src"
	flyReplayBody = 1 << 20 // bytes
)

// flyMachine is the machine of Fly.io that a node runs on; the zero value is
// another one.
type flyMachine struct {
	app string // FLY_APP_NAME
	id  string // FLY_MACHINE_ID
}

func thisFlyMachine(getenv func(string) string) flyMachine {
	return flyMachine{app: getenv("FLY_APP_NAME"), id: getenv("FLY_MACHINE_ID")}
}

// url is the address of this machine in its organization's network, where it
// can be reached under the port; "" when it cannot. Its name outlives its IP
// address.
func (m flyMachine) url(bound net.Addr) string {
	tcp, ok := bound.(*net.TCPAddr)
	if m.app == "" || m.id == "" || !ok || tcp.IP.IsLoopback() {
		return ""
	}
	_, port, err := net.SplitHostPort(tcp.String())
	if err != nil {
		return ""
	}
	return "http://" + net.JoinHostPort(m.id+".vm."+m.app+".internal", port)
}

// replayTo says to Fly's proxy where the primary is whose URL a node knows, or
// returns "" when it cannot take r there: the node or the primary is elsewhere,
// the body is too large, or r would come back to where it was.
func (m flyMachine) replayTo(primary string, r *http.Request) string {
	if m.app == "" || r.ContentLength < 0 || r.ContentLength > flyReplayBody {
		return ""
	}
	app, id := flyTarget(primary)
	switch {
	case app == "":
		return ""
	case app != m.app:
		return "app=" + app // its machines know which of them it is
	case id == "" || id == m.id || id == replayedBy(r):
		return ""
	}
	return "instance=" + id
}

// flyTarget reads a host name that Fly.io gives out; app is "" for any other,
// and id for a name of all machines of an app.
func flyTarget(rawURL string) (app, id string) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", ""
	}
	labels := strings.Split(u.Hostname(), ".")
	n := len(labels)
	switch {
	case n == 4 && labels[1] == "vm" && labels[3] == "internal":
		return labels[2], labels[0]
	case n >= 2 && labels[n-1] == "internal", n == 2 && labels[1] == "flycast":
		return labels[n-2], ""
	case n == 3 && labels[1] == "fly" && labels[2] == "dev":
		return labels[0], ""
	}
	return "", ""
}

// replayedBy is the machine whose answer made Fly's proxy send r here, or "".
func replayedBy(r *http.Request) string {
	for field := range strings.SplitSeq(r.Header.Get(flyReplaySrc), ";") {
		if id, ok := strings.CutPrefix(strings.TrimSpace(field), "instance="); ok {
			return id
		}
	}
	return ""
}

// Package systemd is the side of systemd's protocols that a service has: it
// says how it gets on (sd_notify(3)), and takes a socket that systemd holds for
// it (sd_listen_fds(3)). Other supervisors speak them too.
//
// Without a supervisor, and on systems that have none, there is nothing here:
// [Notify] returns nil, and so does [Listener].
package systemd

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// extension is by how much a sign of the boot puts the start timeout off. It
// must come again before that.
const extension = time.Minute

// Notifier tells systemd how the service gets on. It is for one goroutine.
type Notifier struct {
	log    *slog.Logger
	period time.Duration
	ready  bool
	status string
}

// Notify returns a notifier if this process was started by a supervisor that
// wants to be notified, else nil.
func Notify(log *slog.Logger) (*Notifier, error) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	return &Notifier{log: log, period: period}, nil
}

// Starting puts the start timeout off, and shows the reason.
func (n *Notifier) Starting(reason string) {
	if n.ready {
		n.show(reason)
		return
	}
	n.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extension.Microseconds()), "STATUS="+line(reason))
}

// Serving ends the start.
func (n *Notifier) Serving(status string) {
	if n.ready {
		n.show(status)
		return
	}
	n.ready, n.status = true, status
	n.send(daemon.SdNotifyReady, "STATUS="+line(status))
}

// Stopping begins the stop, and puts its timeout off accordingly.
func (n *Notifier) Stopping(most time.Duration) {
	n.send(daemon.SdNotifyStopping, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", most.Microseconds()), "STATUS=stopping")
}

// Alive feeds the watchdog.
func (n *Notifier) Alive() { n.send(daemon.SdNotifyWatchdog) }

// Period is what is set as WatchdogSec=; 0: there is no watchdog.
func (n *Notifier) Period() time.Duration { return n.period }

// show shows a status unless it is shown already.
func (n *Notifier) show(status string) {
	if status != n.status {
		n.status = status
		n.send("STATUS=" + line(status))
	}
}

func (n *Notifier) send(lines ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		n.log.Warn("the supervisor is not reached", "err", err)
	}
}

// line is text as the value of an assignment.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }

// Listener returns the socket that was handed to this process, or nil if none
// was. More than one is an error.
func Listener() (net.Listener, error) {
	files := activation.Files(true)
	if len(files) == 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if len(files) > 1 {
		return nil, fmt.Errorf("%d sockets were handed over and one is served; leave one ListenStream= in the socket unit", len(files))
	}
	l, err := net.FileListener(files[0])
	if err != nil {
		return nil, fmt.Errorf("the socket that was handed over: %w", err)
	}
	return l, nil
}

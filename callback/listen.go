package callback

import (
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
)

// socketName is FileDescriptorName= of our socket unit.
const socketName = "callback"

// Listen returns the socket that systemd opened for us (LISTEN_FDS), so that hubs can connect while
// we restart; without any it opens addr. Sockets are passed once.
func Listen(addr string) (net.Listener, error) {
	handed, err := activation.ListenersWithNames()
	if err != nil {
		return nil, fmt.Errorf("take over the sockets of systemd: %w", err)
	}
	var all []net.Listener
	for _, ls := range handed {
		all = append(all, ls...)
	}
	if len(all) == 0 {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("listen for hubs on %s: %w", addr, err)
		}
		return l, nil
	}
	ours := handed[socketName]
	if len(ours) == 0 && len(all) == 1 {
		ours = all
	}
	for _, l := range all {
		if len(ours) != 1 || l != ours[0] {
			_ = l.Close()
		}
	}
	if len(ours) != 1 {
		return nil, fmt.Errorf("systemd handed over %d sockets, %d of them named %q: "+
			"set FileDescriptorName=%s on one (BindIPv6Only=both serves both families)",
			len(all), len(ours), socketName, socketName)
	}
	return ours[0], nil
}

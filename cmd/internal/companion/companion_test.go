package companion

import (
	"net"
	"testing"
)

func TestBaseOf(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]string{
		"127.0.0.1": "http://127.0.0.1:8/", "::1": "http://[::1]:8/",
		"0.0.0.0": "http://127.0.0.1:8/", "::": "http://127.0.0.1:8/",
	} {
		if got := baseOf(&net.TCPAddr{IP: net.ParseIP(ip), Port: 8}); got != want {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
}

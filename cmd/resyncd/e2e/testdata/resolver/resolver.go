package main

import (
	"context"
	"net"
	"os"
)

// A test builds resyncd with this file beside its own: names are asked of the server at an address of this machine.
func init() {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", os.Getenv("TEST_RESOLVER"))
	}}
}

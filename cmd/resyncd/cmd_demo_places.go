package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// demoPorts is where a demo's folder keeps its addresses: there its resources have the same names, and leases go on.
type demoPorts struct {
	Source   string `json:"source"`
	Hub      string `json:"hub"`
	Callback string `json:"callback"`
	Console  string `json:"console"`
}

// demoPlaces are the addresses of a demo.
type demoPlaces struct {
	file        string
	kept        demoPorts
	source, hub net.Listener
}

const freePort = "127.0.0.1:0"

// demoPlaces takes up the addresses that the folder had the last time, or free ones.
func newDemoPlaces(ctx context.Context, dataDir string) (*demoPlaces, error) {
	at := &demoPlaces{file: filepath.Join(dataDir, "demo.json"), kept: demoPorts{Source: freePort, Hub: freePort,
		Callback: freePort, Console: freePort}}
	kept, err := os.ReadFile(at.file)
	switch {
	case err == nil:
		if err := json.Unmarshal(kept, &at.kept); err != nil {
			return nil, fmt.Errorf("read %s: %w; take another --dir", at.file, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if at.source, err = listenAgain(ctx, at.kept.Source); err != nil {
		return nil, err
	}
	if at.hub, err = listenAgain(ctx, at.kept.Hub); err != nil {
		return nil, errors.Join(err, at.source.Close())
	}
	return at, nil
}

func listenAgain(ctx context.Context, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("take up %s, where the demo of this folder was, again: %w: end the other demo, or take "+
			"another --dir", addr, err)
	}
	return l, nil
}

// base is the URL of a listener, without a slash at its end.
func (at *demoPlaces) base(l net.Listener) string { return "http://" + l.Addr().String() }

// keep writes the addresses down for the next time.
func (at *demoPlaces) keep(callback, console string) error {
	at.kept = demoPorts{Source: at.source.Addr().String(), Hub: at.hub.Addr().String(), Callback: callback,
		Console: console}
	text, err := json.Marshal(at.kept)
	if err == nil {
		err = os.WriteFile(at.file, append(text, '\n'), 0o600)
	}
	return err
}

func (at *demoPlaces) close() error {
	err := errors.Join(at.source.Close(), at.hub.Close())
	if errors.Is(err, net.ErrClosed) { // who serves on one closes it
		return nil
	}
	return err
}

package fetch

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// apartVariable makes the test binary a server, so that a benchmark measures only the client's work.
const apartVariable = "RESYNCD_FETCH_BENCH_SERVER"

// apart serves /N with N bytes until its standard input ends, which it does with the parent.
func apart() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("http://" + l.Addr().String())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	content := bytes.Repeat([]byte("x"), 1<<20)
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // a test server
		if d, err := time.ParseDuration(r.URL.Query().Get("latency")); err == nil {
			<-time.After(d)
		}
		size := strings.TrimPrefix(r.URL.Path, "/")
		n, _ := strconv.Atoi(size)
		w.Header().Set("Content-Length", size)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("ETag", `"1"`)
		_, _ = w.Write(content[:n])
	}))
}

// serveApart starts the server in a process of its own and returns where it listens.
func serveApart(b *testing.B) string {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env, cmd.Stderr = append(os.Environ(), apartVariable+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	var base string
	if _, err := fmt.Fscanln(out, &base); err != nil {
		b.Fatal(err)
	}
	return base
}

//go:debug zipinsecurepath=0

// Command resyncd knows how a person or a script asks for a mirror: flags, exit codes, progress and text. It refuses to
// know how anything is done; it wires the rooms below together.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"resyncd/cmd/resyncd/internal/exit"
)

func main() { os.Exit(program()) }

// program is the process without its end: it takes arguments, environment and signals and returns the exit code.
func program() int {
	ballast := make([]byte, 2<<20) // never touched, so no memory; a small heap is collected less often
	defer runtime.KeepAlive(ballast)
	log.SetOutput(io.Discard) // net/http writes there what peers sent, unasked and unescaped; our own log is another
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		<-signals
		stop()
		<-signals // a second one ends the process at once; the state bears that (F1)
		os.Exit(exit.Interrupted)
	}()
	return run(ctx, os.Args, os.Environ(), os.Stdout, os.Stderr)
}

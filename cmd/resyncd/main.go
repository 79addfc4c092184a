//go:debug zipinsecurepath=0

// Command resyncd knows how a person or a script asks for a mirror: flags, exit codes, progress and text. It refuses to
// know how anything is done; it wires the rooms below together.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(program()) }

// program is the process without its end: it takes arguments, environment and signals and returns the exit code.
func program() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once; the state bears that (F1)
	return run(ctx, os.Args, os.Environ(), os.Stdout, os.Stderr)
}

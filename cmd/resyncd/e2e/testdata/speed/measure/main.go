// Command measure runs a command and writes what that cost as a line of JSON. It knows nothing of what it runs. It is a
// program of its own, and a small one, because Linux hands the peak memory of the process that starts another down to it.
//
//	measure LOG COMMAND ARGUMENT…
//
// What the command writes goes to LOG.out and LOG.err.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(log string, args []string) error {
	out, err := os.Create(log + ".out")
	if err != nil {
		return err
	}
	defer out.Close()
	complaints, err := os.Create(log + ".err")
	if err != nil {
		return err
	}
	defer complaints.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = out, complaints
	syscall.Sync() // else it pays for what others have left to be written
	begun := time.Now()
	err = cmd.Run()
	wall := time.Since(begun)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	used := cmd.ProcessState
	return json.NewEncoder(os.Stdout).Encode(map[string]int64{
		"wall": int64(wall), "cpu": int64(used.UserTime() + used.SystemTime()),
		"memory": used.SysUsage().(*syscall.Rusage).Maxrss << 10, "exit": int64(used.ExitCode()),
	})
}

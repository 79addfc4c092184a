package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes the content of a file durable, and of the rest what it takes to read it back.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

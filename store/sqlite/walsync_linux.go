package sqlite

import (
	"os"
	"syscall"

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

// linked tells whether an open file still has a name anywhere; it has where nobody can tell.
func linked(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return true
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return !ok || s.Nlink > 0
}

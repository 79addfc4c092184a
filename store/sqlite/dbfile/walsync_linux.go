package dbfile

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// syncData makes the content of a file durable, and the metadata needed to read it back.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// linked reports whether an open file still has a name; true if that cannot be known.
func linked(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return true
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return !ok || s.Nlink > 0
}

package dbfile

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// linked reports whether an open file still has a name, as far as that can be known.
func linked(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return true
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return !ok || s.Nlink > 0
}

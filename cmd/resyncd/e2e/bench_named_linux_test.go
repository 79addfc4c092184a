package e2e_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"syscall"
	"testing"
	"time"
)

// named is a file that got its name in a folder.
type named struct {
	name string
	at   time.Time
}

// watchNames tells when files get their names in a folder, from the kernel: goal 7's "change to file" ends there, and what is
// told by the daemon itself is told after the file's record is durable too. The channel is closed with the test.
func watchNames(b *testing.B, folder string) <-chan named {
	b.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := syscall.InotifyAddWatch(fd, folder, syscall.IN_MOVED_TO); err != nil {
		b.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify") // Close ends a Read that waits
	b.Cleanup(func() { _ = events.Close() })
	to := make(chan named, 1<<16)
	go func() {
		defer close(to)
		buf := make([]byte, 64<<10)
		for {
			n, err := events.Read(buf)
			if err != nil {
				return
			}
			at := time.Now()
			for rest := buf[:n]; len(rest) >= syscall.SizeofInotifyEvent; {
				end := syscall.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
				name, _, _ := bytes.Cut(rest[syscall.SizeofInotifyEvent:end], []byte{0})
				to <- named{string(name), at}
				rest = rest[end:]
			}
		}
	}()
	return to
}

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"resyncd/cmd/resyncd/internal/exit"
)

// watched is the program under a parent's eye: before it does anything it hands its parent, on descriptor 3, the means to
// decide about its system calls. Unlike a debugger that counts them over all threads, and can answer in the kernel's place.
func watched() {
	if err := handOver(3); err != nil {
		fmt.Fprintln(os.Stderr, "cannot be watched:", err)
		os.Exit(exit.Failed)
	}
	path, err := exec.LookPath("resyncd")
	if err == nil {
		err = syscall.Exec(path, append([]string{"resyncd"}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, "cannot run resyncd:", err)
	os.Exit(exit.Failed)
}

func handOver(socket int) error {
	runtime.LockOSThread() // of the two calls below the second needs what the first one did to its thread
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := watchFilter()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH |
		unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV // else each of the runtime's signals would begin a call anew
	fd, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if e != 0 {
		return e
	}
	if err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(int(fd)), nil, 0); err != nil {
		return err
	}
	_ = unix.Close(socket)
	return unix.Close(int(fd))
}

// watchFilter sends watchedCalls to whoever listens; all else happens.
func watchFilter() []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		has    = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret    = unix.BPF_RET | unix.BPF_K
		nr     = 0
		arch   = 4
		args   = 16 // eight bytes each, the lower half first on both systems
		listen = unix.SECCOMP_RET_USER_NOTIF
		allow  = unix.SECCOMP_RET_ALLOW
	)
	ours := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		ours = unix.AUDIT_ARCH_AARCH64
	}
	filter := []unix.SockFilter{
		{Code: load, K: arch}, {Code: equal, K: ours, Jt: 1}, {Code: ret, K: allow}, {Code: load, K: nr},
	}
	for call, c := range watchedCalls() {
		if c.flags == 0 {
			filter = append(filter, unix.SockFilter{Code: equal, K: call, Jf: 1}, unix.SockFilter{Code: ret, K: listen})
			continue
		}
		filter = append(filter,
			unix.SockFilter{Code: equal, K: call, Jf: 4}, unix.SockFilter{Code: load, K: args + 8*uint32(c.flags)},
			unix.SockFilter{Code: has, K: unix.O_CREAT, Jf: 1}, unix.SockFilter{Code: ret, K: listen},
			unix.SockFilter{Code: ret, K: allow})
	}
	return append(filter, unix.SockFilter{Code: ret, K: allow})
}

//go:build linux && (amd64 || arm64)

package confine

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are the system calls that reach files, the network or other processes. Reading and writing what is open
// already stays, and so does all that the Go runtime needs for memory, threads and time.
//
// A list of what is refused, not of what is allowed: the runtime's own needs change from release to release, and a call
// missing there would end the worker in the middle of a request.
var refused = append([]uint32{
	unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_UNLINKAT, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_RENAMEAT2,
	unix.SYS_FCHMODAT, unix.SYS_FCHOWNAT, unix.SYS_TRUNCATE, unix.SYS_MEMFD_CREATE,
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT4,
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_KILL, unix.SYS_PROCESS_VM_READV,
	unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SETNS, unix.SYS_UNSHARE,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
}, refusedHere...)

// Offsets in the structure that the kernel hands to a filter: struct seccomp_data in linux/seccomp.h.
const (
	offsetOfCall         = 0
	offsetOfArchitecture = 4
)

func refuseSystemCalls() error {
	// The bit that forbids new privileges belongs to a thread; the filter copies it to all others.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Where memory runs out, the kernel must kill a worker and not the operator. Later this write would be refused.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	none := unix.Rlimit{}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &none) // a core file would put decrypted text on a disk
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("new privileges cannot be forbidden: %w", err)
	}
	filter := program()
	whole := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	failed, _, errno := unix.Syscall(
		unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&whole)),
	)
	runtime.KeepAlive(filter)
	if errno != 0 {
		return fmt.Errorf("system calls cannot be refused: %w", errno)
	}
	if failed != 0 {
		return fmt.Errorf("system calls cannot be refused to thread %d", failed)
	}
	return nil
}

// program is the filter: another architecture's calls and the refused ones fail with EPERM, the rest pass.
func program() []unix.SockFilter {
	const load, isEqual, isAtLeast, answer = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS,
		unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: load, K: offsetOfArchitecture},
		{Code: isEqual, K: architecture, Jt: 1},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: load, K: offsetOfCall},
		{Code: isAtLeast, K: foreignCalls, Jt: uint8(len(refused) + 1)},
	}
	for index, call := range refused {
		filter = append(filter, unix.SockFilter{Code: isEqual, K: call, Jt: uint8(len(refused) - index)})
	}
	return append(filter,
		unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	)
}

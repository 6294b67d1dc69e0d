package confine

import "golang.org/x/sys/unix"

const (
	architecture = unix.AUDIT_ARCH_X86_64
	// foreignCalls is where the numbers of the x32 interface begin, which the filter would not match.
	foreignCalls = 0x40000000
)

// refusedHere are calls that only this architecture has, in addition to their newer forms.
var refusedHere = []uint32{
	unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_UNLINK, unix.SYS_RMDIR, unix.SYS_MKDIR, unix.SYS_MKNOD, unix.SYS_LINK,
	unix.SYS_SYMLINK, unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN,
	unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_ACCEPT,
}

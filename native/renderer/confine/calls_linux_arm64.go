package confine

import "golang.org/x/sys/unix"

const (
	architecture = unix.AUDIT_ARCH_AARCH64
	// foreignCalls is beyond all numbers of this architecture, which has one interface only.
	foreignCalls = 0xffffffff
)

// refusedHere are calls that only this architecture has, in addition to their newer forms.
var refusedHere = []uint32{unix.SYS_RENAMEAT, unix.SYS_ACCEPT}

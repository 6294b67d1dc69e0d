//go:build linux

package memory

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// GiveBackProgram drops the pages of the program file that starting has touched. What is needed is read again.
func GiveBackProgram() {
	own, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if begin, end, isOurs := unwritten(lines.Text(), own); isOurs {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, begin, end-begin, unix.MADV_DONTNEED)
		}
	}
}

// unwritten reads one line of the table of mappings: the range, if it is a part of the file that nobody can write to.
//
// A part that can be written to holds variables, which dropping would reset.
func unwritten(line, file string) (begin, end uintptr, isOurs bool) {
	fields := strings.Fields(line)
	if len(fields) != 6 || fields[5] != file || strings.Contains(fields[1], "w") {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(fields[0], "-")
	first, err := strconv.ParseUint(from, 16, 64)
	if err != nil {
		return 0, 0, false
	}
	last, err := strconv.ParseUint(to, 16, 64)
	return uintptr(first), uintptr(last), err == nil && last > first
}

//go:build linux

package memory

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// GiveBackProgram drops the pages of the program file that were read at the start. The kernel reads needed ones again.
func GiveBackProgram() {
	own, err := os.Executable()
	if err != nil {
		return
	}
	table, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer table.Close()
	for _, part := range unwritten(bufio.NewScanner(table), own) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, part.begin, part.end-part.begin, unix.MADV_DONTNEED)
	}
}

type mapping struct{ begin, end uintptr }

// unwritten are the mappings of a file that are not writable, and were not written to either.
//
// The second half matters: a dynamic linker writes addresses into pages and locks them afterwards. Dropping those would
// bring back the zeros of the file. The kernel counts the copies that were written to as anonymous.
func unwritten(lines *bufio.Scanner, file string) []mapping {
	var found []mapping
	var current *mapping
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 5 && !strings.HasSuffix(fields[0], ":"):
			current = mappingOf(fields, file)
		case current != nil && len(fields) >= 2 && fields[0] == "Anonymous:" && fields[1] == "0":
			found = append(found, *current)
		}
	}
	return found
}

// mappingOf reads the first line of a mapping; nil where it is not of this file, or may be written to.
func mappingOf(fields []string, file string) *mapping {
	if len(fields) != 6 || fields[5] != file || strings.Contains(fields[1], "w") {
		return nil
	}
	from, to, _ := strings.Cut(fields[0], "-")
	begin, err := strconv.ParseUint(from, 16, 64)
	if err != nil {
		return nil
	}
	end, err := strconv.ParseUint(to, 16, 64)
	if err != nil || end <= begin {
		return nil
	}
	return &mapping{uintptr(begin), uintptr(end)}
}

// slack is the writable memory of the process that is not memory of the Go runtime.
const slack = 48 << 20

// Bound lets the process grow by so many bytes from now on: the kernel refuses more, and the Go runtime then ends the
// process. The watch of a request is too slow for an allocation of a gigabyte at once.
func Bound(room uint64) {
	limit(max(mapped(), Held()+room) + slack)
}

// Unbound removes the bound, up to the one that the parent has set.
func Unbound() { limit(unix.RLIM_INFINITY) }

func limit(bytes uint64) {
	var known unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_DATA, &known) == nil {
		known.Cur = min(bytes, known.Max)
		_ = unix.Setrlimit(unix.RLIMIT_DATA, &known)
	}
}

//go:build linux

package memory

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

const table = `00400000-01000000 r-xp 00000000 08:01 42    /usr/bin/renderer
Rss:                 900 kB
Private_Dirty:       900 kB
Anonymous:             0 kB
01000000-02000000 r--p 00c00000 08:01 42    /usr/bin/renderer
Anonymous:            16 kB
02000000-03000000 rw-p 01c00000 08:01 42    /usr/bin/renderer
Anonymous:             0 kB
03000000-04000000 r--p 00000000 08:01 43    /usr/lib/libc.so
Anonymous:             0 kB
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
Anonymous:             0 kB
VmFlags: rd mr mw me ac sd
`

func TestOnlyPagesThatNobodyWroteToAreGivenBack(t *testing.T) {
	got := unwritten(bufio.NewScanner(strings.NewReader(table)), "/usr/bin/renderer")
	if len(got) != 1 || got[0] != (mapping{0x400000, 0x1000000}) {
		t.Errorf("got %x", got)
	}
}

func TestAProgramGoesOnAfterItGaveItselfBack(t *testing.T) {
	GiveBackProgram()
	if _, err := os.ReadFile("/proc/self/status"); err != nil {
		t.Error(err)
	}
}

package confine_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"stellwerk/renderer/confine"
)

// TestMain is also the confined process: a process cannot take back what it gave up, so the test starts itself again.
func TestMain(m *testing.M) {
	if os.Getenv("CONFINED") == "" {
		os.Exit(m.Run())
	}
	if err := confine.Now(); err != nil {
		fmt.Println("not confined:", err)
		return
	}
	done := make(chan struct{})
	go func() { // on whatever thread
		defer close(done)
		tryEverything()
	}()
	<-done
}

func tryEverything() {
	if _, err := os.ReadFile("/etc/passwd"); err != nil {
		fmt.Println("no reading")
	}
	if err := os.WriteFile(os.TempDir()+"/confined", nil, 0o600); err != nil {
		fmt.Println("no writing")
	}
	if _, err := net.Dial("udp", "127.0.0.1:53"); err != nil {
		fmt.Println("no calling")
	}
	if _, err := net.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println("no listening")
	}
	if err := exec.Command("/bin/true").Run(); err != nil {
		fmt.Println("no starting")
	}
	if len(os.Environ()) == 0 {
		fmt.Println("no environment")
	}
}

func TestAConfinedProcessReachesNothing(t *testing.T) {
	again := exec.Command(os.Args[0])
	again.Env = append(os.Environ(), "CONFINED=yes", "SECRET=hunter2")
	said, err := again.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if strings.HasPrefix(string(said), "not confined") {
		t.Skip(strings.TrimSpace(string(said)))
	}
	want := "no reading\nno writing\nno calling\nno listening\nno starting\nno environment\n"
	if string(said) != want {
		t.Errorf("got %q", said)
	}
}

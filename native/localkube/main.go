// Command localkube is a Kubernetes control plane in one binary: the first argument picks the component.
//
// Each component is the real one, called through the entry point its own main uses; nothing is configured here.
// One binary and not four, because they share nine tenths of their code: 125 MB instead of 420 MB, one link instead of four.
// The pod runner (kwok) is built from the same module as a binary of its own: its flags clash with --version of component-base.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // CronJobs may name a time zone on a machine without a zone database.

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/component-base/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const usage = "usage: localkube etcd|kube-apiserver|kube-controller-manager|kube-scheduler|version [flags]"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	component := os.Args[1]
	// Every component reads os.Args itself, so it must look as if it had been started under its own name.
	os.Args = append([]string{component}, os.Args[2:]...)
	switch component {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(controllermanager.NewControllerManagerCommand())
	case "kube-scheduler":
		run(scheduler.NewSchedulerCommand())
	case "version":
		fmt.Println(version.Get().GitVersion)
	default:
		fmt.Fprintf(os.Stderr, "unknown component %q\n%s\n", component, usage)
		os.Exit(2)
	}
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

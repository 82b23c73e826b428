// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// logOptions selects between klog's text format, which scripts written for the original parse, and JSON.
type logOptions struct {
	format string
	klog   *flag.FlagSet
}

func (o *logOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.format, "log-format", "text", "text (klog's format) or json")
	o.klog = flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(o.klog)
	fs.AddGoFlag(o.klog.Lookup("v"))
	fs.AddGoFlag(o.klog.Lookup("vmodule"))
}

func (o *logOptions) setUp() error {
	switch o.format {
	case "text":
	case "json":
		handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-4)})
		klog.SetLogger(logr.FromSlogHandler(handler))
	default:
		return fmt.Errorf("--log-format is text or json, not %q", o.format)
	}
	ctrl.SetLogger(klog.Background())
	return nil
}

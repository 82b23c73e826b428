// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Httpd is a small web server that says where it runs, for tests and as the base of a demo; as a client it fetches one
// page, so that its image needs no other program.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", ":8080", "address to listen on")
	title := flag.String("title", env("TITLE", "httpd"), "headline of the page")
	var as identity
	flag.StringVar(&as.ca, "ca", "", "file with the certificates that a server is believed by")
	flag.StringVar(&as.token, "token", "", "file with a token that is sent along")
	flag.Usage = usage
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	switch flag.Arg(0) {
	case "":
		err = serve(ctx, *listen, *title)
	case "get":
		err = get(ctx, as, flag.Arg(1), os.Stdout)
	default:
		usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func usage() {
	fmt.Fprint(os.Stderr, `httpd [--listen ADDR] [--title TEXT]   serve: /, /json, /healthz, /echo, /slow?for=2s, /bytes?n=1000000
httpd [--ca FILE] [--token FILE] get URL   fetch a page, fail unless the answer is 2xx
The pages show CLUSTER, NODE_NAME, POD_NAME, POD_IP and POD_NAMESPACE from the environment.
`)
}

func env(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

func serve(ctx context.Context, listen, title string) error {
	server := &http.Server{Addr: listen, Handler: Handler(title, here()), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(grace)
	}()
	log.Printf("listening on %s", listen)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// identity is whom a client believes, and what it says of itself: files, "" for what everybody has.
type identity struct{ ca, token string }

func get(ctx context.Context, as identity, url string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if as.ca != "" {
		data, err := os.ReadFile(as.ca)
		if err != nil {
			return err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(data) {
			return fmt.Errorf("%s holds no certificate", as.ca)
		}
	}
	if as.token != "" {
		data, err := os.ReadFile(as.token)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(data)))
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(out, res.Body); err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return errors.New(res.Status)
	}
	return nil
}

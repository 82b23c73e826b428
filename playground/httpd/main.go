// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Httpd is a small web server for tests and the demo, whose pages show the pod, node and cluster of the server. It is also a client that fetches
// a page, so that the image needs no other program.
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
	title := flag.String("title", getenv("TITLE", "httpd"), "headline of the page")
	var creds credentials
	flag.StringVar(&creds.ca, "ca", "", "file of the CA certificates that verify the server")
	flag.StringVar(&creds.token, "token", "", "file of the bearer token")
	flag.Usage = usage
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	switch flag.Arg(0) {
	case "":
		err = serve(ctx, *listen, *title)
	case "get":
		err = fetchPage(ctx, creds, flag.Arg(1), os.Stdout)
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

func getenv(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

func serve(ctx context.Context, listen, title string) error {
	server := &http.Server{Addr: listen, Handler: Handler(title, currentPlace()), ReadHeaderTimeout: 10 * time.Second}
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

// credentials are the files of a client: the CA that verifies the server ("": the system's) and the bearer token ("": none).
type credentials struct{ ca, token string }

func fetchPage(ctx context.Context, creds credentials, url string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if creds.ca != "" {
		data, err := os.ReadFile(creds.ca)
		if err != nil {
			return err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(data) {
			return fmt.Errorf("%s contains no certificate", creds.ca)
		}
	}
	if creds.token != "" {
		data, err := os.ReadFile(creds.token)
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

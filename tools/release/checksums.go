// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// fileSum is the SHA-256 sum of a file, in hexadecimal digits.
type fileSum struct{ name, sum string }

// hashFiles hashes the files of a folder, sorted by name. Sub-folders are left out: a registry's digests say what is in them.
func hashFiles(folder string) ([]fileSum, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var sums []fileSum
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		sums = append(sums, fileSum{entry.Name(), hash(content)})
	}
	return sums, nil
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// checksums returns the text that `sha256sum --check` reads.
func checksums(sums []fileSum) string {
	var text strings.Builder
	for _, s := range sums {
		fmt.Fprintf(&text, "%s  %s\n", s.sum, s.name)
	}
	return text.String()
}

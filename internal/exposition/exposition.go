// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package exposition filters and relabels pages of metrics in the text format of Prometheus, as kubelets serve them. Values and timestamps
// stay as they are, to the letter.
package exposition

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ContentType is the content type of the pages.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// maxLine is the maximum length of a line. Lines hold at most some dozens of labels.
const maxLine = 64 << 10

// Sample is one line of a page: a name, labels, a value, and a timestamp if there is one. A Sample is valid until the next line is read.
type Sample struct {
	line      []byte
	name      int // the end of the name
	labels    []label
	value     []byte
	timestamp []byte
}

// label holds the positions of a label in the line: the name, and the value without the quotes, with escapes.
type label struct{ name, nameEnd, value, valueEnd int }

var errSyntax = errors.New("invalid sample")

// Parse reads a line without the end of line. The line must not be changed as long as the Sample is used.
func (s *Sample) Parse(line []byte) error {
	*s = Sample{line: line, labels: s.labels[:0]}
	i := scanName(line, 0, true)
	if i == 0 {
		return errSyntax
	}
	s.name = i
	if i < len(line) && line[i] == '{' {
		var err error
		if i, err = s.parseLabels(i + 1); err != nil {
			return err
		}
	}
	fields := bytes.Fields(line[i:])
	if len(fields) == 0 || len(fields) > 2 || i < len(line) && line[i] != ' ' && line[i] != '\t' && line[s.name] != '{' {
		return errSyntax
	}
	if s.value = fields[0]; len(fields) == 2 {
		s.timestamp = fields[1]
	}
	return nil
}

// parseLabels reads labels from position i on, and returns the position behind the closing brace.
func (s *Sample) parseLabels(i int) (int, error) {
	for {
		if i = skipBlanks(s.line, i); i < len(s.line) && s.line[i] == '}' {
			return i + 1, nil
		}
		l := label{name: i, nameEnd: scanName(s.line, i, false)}
		if l.nameEnd == i {
			return 0, errSyntax
		}
		i = skipBlanks(s.line, l.nameEnd)
		if i >= len(s.line) || s.line[i] != '=' {
			return 0, errSyntax
		}
		if i = skipBlanks(s.line, i+1); i >= len(s.line) || s.line[i] != '"' {
			return 0, errSyntax
		}
		l.value = i + 1
		for i = l.value; i < len(s.line) && s.line[i] != '"'; i++ {
			if s.line[i] == '\\' {
				i++
			}
		}
		if i >= len(s.line) {
			return 0, errSyntax
		}
		l.valueEnd = i
		// Readers would differ about a label that occurs twice.
		if slices.ContainsFunc(s.labels, func(o label) bool {
			return bytes.Equal(s.line[o.name:o.nameEnd], s.line[l.name:l.nameEnd])
		}) {
			return 0, errSyntax
		}
		s.labels = append(s.labels, l)
		if i = skipBlanks(s.line, i+1); i < len(s.line) && s.line[i] == ',' {
			i++
		} else if i >= len(s.line) || s.line[i] != '}' {
			return 0, errSyntax
		}
	}
}

// scanName returns the end of a name that begins at position i, and i without a name. Only names of metrics have colons.
func scanName(line []byte, i int, colons bool) int {
	from := i
	for ; i < len(line); i++ {
		switch c := line[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', colons && c == ':', i > from && c >= '0' && c <= '9':
		default:
			return i
		}
	}
	return i
}

func skipBlanks(line []byte, i int) int {
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		i++
	}
	return i
}

// Line returns the whole line.
func (s *Sample) Line() []byte { return s.line }

// Name returns the name of the metric.
func (s *Sample) Name() []byte { return s.line[:s.name] }

// findLabel returns the position of a label in s.labels, -1 for a missing label.
func (s *Sample) findLabel(name string) int {
	return slices.IndexFunc(s.labels, func(l label) bool { return string(s.line[l.name:l.nameEnd]) == name })
}

// Label returns the value of a label, "" if it is missing.
func (s *Sample) Label(name string) string {
	i := s.findLabel(name)
	if i < 0 {
		return ""
	}
	value := s.line[s.labels[i].value:s.labels[i].valueEnd]
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value)
	}
	return unescape.Replace(string(value))
}

var (
	unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
	escape   = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
)

// AppendWith appends the line, with another value of a label, to out. A missing label stays missing.
func (s *Sample) AppendWith(out []byte, name, value string) []byte {
	i := s.findLabel(name)
	if i < 0 {
		return append(out, s.line...)
	}
	out = append(out, s.line[:s.labels[i].value]...)
	out = append(out, escape.Replace(value)...)
	return append(out, s.line[s.labels[i].valueEnd:]...)
}

// Value returns the value.
func (s *Sample) Value() (float64, error) { return strconv.ParseFloat(string(s.value), 64) }

// Time returns the timestamp, or now without a timestamp.
func (s *Sample) Time(now time.Time) time.Time {
	if ms, err := strconv.ParseInt(string(s.timestamp), 10, 64); err == nil {
		return time.UnixMilli(ms)
	}
	return now
}

// Reader reads the lines of a page.
type Reader struct {
	in *bufio.Reader
	// Invalid counts the skipped invalid lines.
	Invalid int
	sample  Sample
	// family is the metric of the present HELP and TYPE lines, and header these lines, each with the end of line.
	family, header []byte
}

// NewReader returns a reader of a page.
func NewReader(page io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(page, maxLine)}
}

// Next returns the next sample, and its family: the name, and the HELP and TYPE lines. Both are valid until the next call. The error is io.EOF at the
// end of the page. The end of a page is always the end of a line.
func (r *Reader) Next() (*Sample, error) {
	for {
		line, err := r.in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("a line of the page is longer than %d bytes", maxLine)
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
		text := bytes.TrimSpace(line)
		switch {
		case len(text) == 0:
		case text[0] == '#':
			r.readComment(text)
		case r.sample.Parse(text) != nil:
			r.Invalid++
		default:
			if !belongsTo(r.sample.Name(), r.family) {
				r.family, r.header = append(r.family[:0], r.sample.Name()...), r.header[:0]
			}
			return &r.sample, nil
		}
	}
}

// Family returns the metric of the present sample.
func (r *Reader) Family() []byte { return r.family }

// Header returns the HELP and TYPE lines of the metric of the present sample.
func (r *Reader) Header() []byte { return r.header }

// readComment adds a HELP or TYPE line to the present family, or begins another family.
func (r *Reader) readComment(text []byte) {
	fields := bytes.Fields(text)
	if len(fields) < 3 || string(fields[0]) != "#" || string(fields[1]) != "HELP" && string(fields[1]) != "TYPE" {
		return
	}
	if name := fields[2]; !bytes.Equal(name, r.family) {
		r.family, r.header = append(r.family[:0], name...), r.header[:0]
	}
	r.header = append(append(r.header, text...), '\n')
}

// belongsTo reports whether a sample belongs to a family. The samples of histograms and summaries have suffixes.
func belongsTo(sample, family []byte) bool {
	suffix, ok := bytes.CutPrefix(sample, family)
	if !ok || len(family) == 0 {
		return false
	}
	switch string(suffix) {
	case "", "_bucket", "_sum", "_count", "_created", "_total", "_info":
		return true
	}
	return false
}

// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/network/plan"
)

// tunnelProber probes the peer's gateway through the tunnel, and answers the probes of the peer.
type tunnelProber struct {
	cluster       string // ID of the peer
	server        bool   // this end is the server
	ours, theirs  netip.AddrPort
	interval      time.Duration
	log           logr.Logger
	beat          func() // is called after each question, when its answer is late, and when the first answer comes
	answered      func(after time.Duration)
	bind          func(netip.AddrPort) (*net.UDPConn, error)
	lastListening error
	early         chan struct{} // the next questions are sent now
	suspicions    chan struct{} // the server may be gone

	mu     sync.Mutex // guards the fields below
	conn   *net.UDPConn
	pulse  agent.PathHealth
	search pmtuSearch  // of the size of full packets
	tried  []time.Time // send times of other sizes in the running search
	passed time.Time   // time of the last answer to one of them
}

// overhead of a message in a packet of IPv4: IP and UDP.
const overhead = 20 + 8

// bindSocket opens a socket without fragmentation: a fragmented probe would not show whether a packet of the same size passes.
func bindSocket(at netip.AddrPort) (*net.UDPConn, error) {
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		var option error
		err = raw.Control(func(fd uintptr) {
			option = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
		})
		err = errors.Join(err, option)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("forbidding fragments: %w", err)
	}
	return conn, nil
}

func newProber(o Options, local, remote netip.Addr, log logr.Logger, heartbeat func()) *tunnelProber {
	mtu := plan.UsableMTU(o.MTU)
	return &tunnelProber{
		cluster: o.RemoteClusterID, server: o.Server, interval: o.PingInterval, log: log, beat: heartbeat, answered: func(time.Duration) {}, bind: bindSocket, early: make(chan struct{}, 1), suspicions: make(chan struct{}, 1),
		ours: netip.AddrPortFrom(local, o.PingPort), theirs: netip.AddrPortFrom(remote, o.PingPort),
		pulse:  agent.PathHealth{Interval: o.PingInterval, Threshold: o.PingLossThreshold},
		search: pmtuSearch{ceiling: mtu, mtu: mtu, again: raiseAfter},
	}
}

// Start probes until the context ends. Start waits while the tunnel has no address.
func (p *tunnelProber) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := p.runProbe(ctx); err != nil && ctx.Err() == nil {
			p.logOnce(err)
			pauseFor(ctx, p.interval)
			p.recordMiss()
			p.beat()
		}
	}
	return nil
}

// NeedLeaderElection returns false: standby replicas answer probes, too.
func (p *tunnelProber) NeedLeaderElection() bool { return false }

// recordMiss records a probe that could not be sent. A peer that was never probed has no health.
func (p *tunnelProber) recordMiss() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.pulse.Began.IsZero() {
		p.pulse.Ask(time.Now())
	}
}

// logOnce logs an error once.
func (p *tunnelProber) logOnce(err error) {
	if p.lastListening == nil || p.lastListening.Error() != err.Error() {
		p.log.V(1).Info("cannot probe the tunnel yet", "reason", err.Error())
	}
	p.lastListening = err
}

func pauseFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (p *tunnelProber) runProbe(ctx context.Context) error {
	conn, err := p.bind(p.ours)
	if err != nil {
		return fmt.Errorf("listening for probes: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	p.setConn(conn)
	defer p.setConn(nil)
	p.lastListening = nil
	asked := make(chan struct{})
	asking, stop := context.WithCancel(ctx)
	go func() {
		defer close(asked)
		p.sendQuestions(asking, conn)
	}()
	err = p.receiveAll(conn)
	stop()
	<-asked
	return err
}

func (p *tunnelProber) setConn(conn *net.UDPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = conn
}

// sendGoodbye tells the client that this server ends, so that the client begins a session with the next server at once. Older clients ignore the
// message.
func (p *tunnelProber) sendGoodbye() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		return
	}
	if data, err := json.Marshal(probePacket{ClusterID: p.cluster, Type: goodbye, Time: time.Now()}); err == nil {
		_, _ = p.conn.WriteToUDPAddrPort(data, p.theirs) // a client that misses the goodbye notices the lost answers
	}
}

// sendQuestions sends questions at each interval, and on request. A suspicion is verified at most once per interval.
func (p *tunnelProber) sendQuestions(ctx context.Context, conn *net.UDPConn) {
	tick, late := time.NewTicker(p.interval), time.NewTimer(p.interval)
	defer tick.Stop()
	defer late.Stop()
	suspicions := p.suspicions
	for {
		p.sendQuestion(conn)
		late.Reset(p.interval / movesPerInterval)
		for waiting := true; waiting; {
			select {
			case <-late.C:
				if p.isLate() {
					p.beat()
				}
			case <-tick.C:
				waiting, suspicions = false, p.suspicions
			case <-p.early:
				waiting = false
			case <-suspicions:
				suspicions = nil
				p.verifyServer(ctx, conn)
			case <-ctx.Done():
				return
			}
		}
	}
}

// sendQuestion sends a small and a full probe, and other sizes during an MTU search.
func (p *tunnelProber) sendQuestion(conn *net.UDPConn) {
	now, sizes := p.recordSent()
	p.beat()
	for _, size := range sizes {
		if data, err := encodeQuestion(p.cluster, now, size); err == nil {
			_, _ = conn.WriteToUDPAddrPort(data, p.theirs) // an unsent probe counts as lost
		}
	}
}

// suspectServer is called when the network says that nothing receives at the address of the server. Anyone can say so. suspectServer does not block.
func (p *tunnelProber) suspectServer() {
	select {
	case p.suspicions <- struct{}{}:
	default:
	}
}

// verifyServer asks a suspected server twice. Without an answer its end counts like a goodbye, once until the next answer: a server that stays away is
// searched at the usual pace.
func (p *tunnelProber) verifyServer(ctx context.Context, conn *net.UDPConn) {
	wait := p.verifyTime()
	if wait == 0 {
		return
	}
	for range 2 {
		p.sendQuestion(conn)
		if pauseFor(ctx, wait); ctx.Err() != nil || !p.isLate() {
			return
		}
	}
	p.mu.Lock()
	if p.pulse.Small.At.After(p.pulse.Left) {
		p.pulse.Left = time.Now()
	}
	p.mu.Unlock()
	p.beat()
}

// verifyTime returns how long a suspected server has to answer: an eighth of the interval, or twice its usual time. It returns 0 for a server whose
// answers take so long that the handshakes after a goodbye would cut each other off, and for one that never answered.
func (p *tunnelProber) verifyTime() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	usual := p.pulse.Small.Latency
	if p.pulse.Small.At.IsZero() || 2*usual > p.interval/movesPerInterval {
		return 0
	}
	return max(p.interval/8, 2*usual)
}

// isLate reports whether a peer that answered before has not answered the last small question yet.
func (p *tunnelProber) isLate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.pulse.Small.At.IsZero() && p.pulse.Small.Unanswered(time.Now()) > 0
}

// recordSent records that probes are sent now, and returns the sizes of the messages. There is no search with a peer that does not return padding.
func (p *tunnelProber) recordSent() (now time.Time, sizes []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now = time.Now()
	was := p.search.mtu
	small, full := p.pulse.Losses(now)
	others := p.search.nextSizes(now, full, p.pulse.Pads && small < searchAfter)
	if p.tried = append(p.tried, now); len(others) == 0 {
		p.tried = nil
	}
	if p.search.mtu != was {
		p.pulse.Full.Resize(p.passed)
	}
	p.pulse.Ask(now)
	if sizes = []int{0}; !slices.Contains(others, p.search.mtu) {
		sizes = append(sizes, p.search.mtu-overhead)
	}
	for _, size := range slices.Backward(others) { // the end of a burst may be dropped, so large sizes go first
		sizes = append(sizes, size-overhead)
	}
	return now, sizes
}

// receiveAll answers questions, and takes answers in, until the socket is closed.
func (p *tunnelProber) receiveAll(conn *net.UDPConn) error {
	buffer := make([]byte, maxProbe)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return fmt.Errorf("reading probes: %w", err)
		}
		if from.Addr().Unmap() != p.theirs.Addr() {
			continue
		}
		message, err := decodeProbe(buffer[:n])
		switch {
		case err != nil:
			p.log.V(1).Info("a message on the tunnel is not a probe", "reason", err.Error())
		case message.Type == ping:
			p.hearQuestion()
			p.sendAnswer(conn, message, n, from)
		case message.Type == goodbye:
			p.hearGoodbye()
		case message.ClusterID == p.cluster:
			p.recordAnswer(message, n)
		}
	}
}

// hearQuestion records a probe of the peer.
func (p *tunnelProber) hearQuestion() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pulse.Asked = time.Now()
}

// hearGoodbye records that the peer's server ends. A peer may send any number of goodbyes, and each goodbye that counts requests a run of the loop.
func (p *tunnelProber) hearGoodbye() {
	p.mu.Lock()
	now := time.Now()
	counts := !p.server && now.Sub(p.pulse.Left) >= p.interval/movesPerInterval
	if counts {
		p.pulse.Left = now
	}
	p.mu.Unlock()
	if counts {
		p.beat()
	}
}

func (p *tunnelProber) sendAnswer(conn *net.UDPConn, question probePacket, size int, to netip.AddrPort) {
	data, err := question.encodeAnswer(size)
	if err != nil {
		p.log.V(1).Info("a probe is not answered", "reason", err.Error())
		return
	}
	_, _ = conn.WriteToUDPAddrPort(data, to)
}

func (p *tunnelProber) recordAnswer(reply probePacket, size int) {
	now := time.Now()
	p.mu.Lock()
	was, small := p.pulse.Up(now), false
	switch size += overhead; {
	case size == p.search.mtu:
		if p.pulse.Full.Hear(reply.Time, now) {
			p.search.recordAnswer(size)
		}
	case slices.ContainsFunc(p.tried, reply.Time.Equal) && p.search.recordAnswer(size):
		p.passed = now
	default:
		if small = p.pulse.Small.Hear(reply.Time, now); small {
			p.pulse.Pads = reply.Padding != ""
		}
		if small && !p.pulse.Pads {
			p.search.reset()
		}
	}
	is, after := p.pulse.Up(now), p.pulse.Small.Latency
	p.mu.Unlock()
	if small {
		p.answered(after)
	}
	if is && !was {
		p.beat()
	}
}

// resetAnswers discards all answers, because the peer changed.
func (p *tunnelProber) resetAnswers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pulse = agent.PathHealth{Interval: p.pulse.Interval, Threshold: p.pulse.Threshold}
	p.search.stopSearch()
}

// SendNow has the next questions sent now.
func (p *tunnelProber) SendNow() {
	select {
	case p.early <- struct{}{}:
	default:
	}
}

// Paths returns how the tunnel fares, nothing if it was never probed.
func (p *tunnelProber) Paths() []agent.ProbedPath {
	health := p.pathHealth()
	if health.Began.IsZero() {
		return nil
	}
	return []agent.ProbedPath{{Peer: p.cluster, MTU: p.foundMTU(), Health: health}}
}

// setFloor sets how small the MTU may get.
func (p *tunnelProber) setFloor(floor int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.search.setFloor(floor)
}

// setKnownMTU adopts the MTU of an earlier process.
func (p *tunnelProber) setKnownMTU(mtu int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.search.setKnownMTU(mtu)
}

// foundMTU returns the largest packet size known to pass.
func (p *tunnelProber) foundMTU() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.search.mtu
}

// pathHealth is how the tunnel fares.
func (p *tunnelProber) pathHealth() agent.PathHealth {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pulse.Copy()
}

// probePacket is a message of the connection check: JSON in one UDP packet between both gateways. Padding is our extension, because small packets may
// pass where large packets do not; other implementations ignore Padding and answer without padding.
type probePacket struct {
	ClusterID string    `json:"clusterID"` // receiver of the PING, which returns the ID unchanged
	Type      probeType `json:"msgType"`
	Time      time.Time `json:"timeStamp"` // of the sender of the PING
	Padding   string    `json:"padding,omitempty"`
}

type probeType string

const (
	ping probeType = "PING"
	pong probeType = "PONG"
	// goodbye is our extension; other implementations ignore the message.
	goodbye probeType = "GOODBYE"
)

// maxProbe is the maximum length of a received message, in bytes.
const maxProbe = 1 << 16

func decodeProbe(data []byte) (probePacket, error) {
	var p probePacket
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("decoding a probe: %w", err)
	}
	if p.Type != ping && p.Type != pong && p.Type != goodbye || p.Time.IsZero() {
		return p, errors.New("decoding a probe: it is neither question nor answer nor goodbye")
	}
	return p, nil
}

// encodeQuestion returns a PING of size bytes, or of the minimum size. A PING always has padding: a peer that returns some padding returns any
// amount.
func encodeQuestion(cluster string, now time.Time, size int) ([]byte, error) {
	p := probePacket{ClusterID: cluster, Type: ping, Time: now, Padding: "."}
	data, err := json.Marshal(p)
	if missing := size - len(data); err == nil && missing > 0 {
		p.Padding += strings.Repeat(".", missing)
		data, err = json.Marshal(p)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding a probe: %w", err)
	}
	return data, nil
}

// encodeAnswer returns the answer to a question of size bytes. An answer longer than its question is not sent, so that the gateway cannot be used for
// amplification.
func (p probePacket) encodeAnswer(size int) ([]byte, error) {
	p.Type = pong
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding an answer: %w", err)
	}
	if len(data) > size {
		return nil, fmt.Errorf("encoding an answer: it would have %d bytes, and the question had %d", len(data), size)
	}
	return data, nil
}

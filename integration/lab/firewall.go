package lab

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// This is the hub's ruleset in the syntax of nft(8):
//
//	table bridge lab {
//	  set cut { type ifname . ifname }
//	  set mute { type ifname . ifname }
//	  chain forward {
//	    type filter hook forward priority 0; policy accept;
//	    iifname . oifname @cut counter drop
//	    meta protocol != arp iifname . oifname @mute counter drop
//	    jump loss
//	  }
//	  chain loss {
//	    iifname "p1n*" numgen random mod 10000 < 500 counter drop   # 5 % on network 1
//	  }
//	}
var (
	table        = &nftables.Table{Family: nftables.TableFamilyBridge, Name: "lab"}
	chainForward = &nftables.Chain{
		Table: table, Name: "forward", Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
	}
	chainLoss = &nftables.Chain{Table: table, Name: "loss"}
)

// lossScale is the resolution of random loss: hundredths of a percent.
const lossScale = 10000

// elementsPerMessage keeps a netlink message of set elements far below the 64 KiB that an attribute can hold.
const elementsPerMessage = 256

// pair is a direction on one network. It stands for packets that enter the bridge at one port and leave it at another.
type pair struct{ network, from, to int }

// barrier is the treatment of a pair's packets. Its value is the name of the set that contains the pair.
type barrier string

const (
	// cut drops every frame, as a broken switch does.
	cut barrier = "cut"
	// mute lets ARP pass. Otherwise a one-way cut would become a two-way cut as soon as the side that can send asks for
	// the other side's hardware address.
	mute barrier = "mute"
)

// set describes the barrier's set. Each use needs a new description, because the library writes its ID into it.
func (b barrier) set() *nftables.Set {
	return &nftables.Set{
		Table: table, Name: string(b), Concatenation: true,
		KeyType: nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeIFName),
	}
}

// dropRule drops packets that match the guard and go from one port to the other of a pair in the set. A name fills one
// 16-byte register; two neighbouring registers are the key.
func (b barrier) dropRule(set *nftables.Set, guard ...expr.Any) *nftables.Rule {
	return &nftables.Rule{Table: table, Chain: chainForward, Exprs: append(guard,
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: unix.NFT_REG_1},
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: unix.NFT_REG_2},
		&expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: set.Name, SetID: set.ID},
		&expr.Counter{},
		&expr.Verdict{Kind: expr.VerdictDrop},
	)}
}

// transact runs f on a connection to the hub's nftables and commits what f has queued as one transaction. The
// connection names its namespace by descriptor, so that it cannot touch any other. It is new each time, so that no old
// answer is in it.
func (l *Lab) transact(f func(*nftables.Conn) error) error {
	conn, err := nftables.New(nftables.WithNetNSFd(int(l.hub.fd.Fd())), nftables.AsLasting())
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	defer conn.CloseLasting()
	if err := f(conn); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("commit nftables transaction: %w", err)
	}
	return nil
}

func (l *Lab) installFirewall() error {
	return l.transact(func(c *nftables.Conn) error {
		c.AddTable(table)
		c.AddChain(chainForward)
		c.AddChain(chainLoss)
		cuts, mutes := cut.set(), mute.set()
		for _, set := range []*nftables.Set{cuts, mutes} {
			if err := c.AddSet(set, nil); err != nil {
				return fmt.Errorf("describe nftables set: %w", err)
			}
		}
		c.AddRule(cut.dropRule(cuts))
		c.AddRule(mute.dropRule(mutes,
			&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: unix.NFT_REG_1},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: unix.NFT_REG_1, Data: binaryutil.BigEndian.PutUint16(unix.ETH_P_ARP)},
		))
		c.AddRule(&nftables.Rule{Table: table, Chain: chainForward, Exprs: []expr.Any{
			&expr.Verdict{Kind: expr.VerdictJump, Chain: chainLoss.Name},
		}})
		return nil
	})
}

// writeRules makes the kernel's sets and loss rules equal to barriers and loss, in one transaction: there is no moment
// at which an old cut has ended and a new one has not begun.
func (l *Lab) writeRules(barriers map[pair]barrier, loss map[string]float64) error {
	elements := map[barrier][]nftables.SetElement{}
	for p, b := range barriers {
		key := append(ifname(portName(p.network, p.from)), ifname(portName(p.network, p.to))...)
		elements[b] = append(elements[b], nftables.SetElement{Key: key})
	}
	return l.transact(func(c *nftables.Conn) error {
		for _, b := range []barrier{cut, mute} {
			set := b.set()
			c.FlushSet(set)
			for chunk := range slices.Chunk(elements[b], elementsPerMessage) {
				if err := c.SetAddElements(set, chunk); err != nil {
					return fmt.Errorf("describe nftables set elements: %w", err)
				}
			}
		}
		c.FlushChain(chainLoss)
		for i, network := range l.cfg.Networks {
			if percent := loss[network]; percent > 0 {
				c.AddRule(lossRule(i, percent))
			}
		}
		return nil
	})
}

func lossRule(network int, percent float64) *nftables.Rule {
	below := uint32(math.Round(percent / 100 * lossScale))
	return &nftables.Rule{Table: table, Chain: chainLoss, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: unix.NFT_REG_1},
		// The data has fewer bytes than the register, so only the prefix is compared.
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: []byte(portPrefix(network))},
		&expr.Numgen{Register: unix.NFT_REG_1, Modulus: lossScale, Type: unix.NFT_NG_RANDOM},
		// Numbers are compared byte by byte, so the random number is converted to big endian first.
		&expr.Byteorder{
			SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1,
			Op: expr.ByteorderHton, Len: 4, Size: 4,
		},
		&expr.Cmp{Op: expr.CmpOpLt, Register: unix.NFT_REG_1, Data: binaryutil.BigEndian.PutUint32(below)},
		&expr.Counter{},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}}
}

// Dropped counts the packets that cuts have dropped since the lab began, which proves that a partition was real. Random
// loss is not counted.
func (l *Lab) Dropped() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, errClosed
	}
	conn, err := nftables.New(nftables.WithNetNSFd(int(l.hub.fd.Fd())), nftables.AsLasting())
	if err != nil {
		return 0, fmt.Errorf("lab: open nftables: %w", err)
	}
	defer conn.CloseLasting()
	rules, err := conn.GetRules(table, chainForward)
	if err != nil {
		return 0, fmt.Errorf("lab: read nftables counters: %w", err)
	}
	var packets uint64
	for _, rule := range rules {
		for _, e := range rule.Exprs {
			if c, ok := e.(*expr.Counter); ok {
				packets += c.Packets
			}
		}
	}
	return packets, nil
}

// ifname returns an interface name in the form in which nftables compares it: padded with zeros.
func ifname(name string) []byte {
	return append([]byte(name), bytes.Repeat([]byte{0}, unix.IFNAMSIZ-len(name))...)
}

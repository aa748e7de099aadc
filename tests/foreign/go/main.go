// A share consumer by franz-go that does to each record what the record's value says, prints a line
// of JSON for all that it sees, and ends when so many records are accepted or rejected.
//
// Arguments: bootstrap servers, topic, group, number of records, and "strict" for record_limit.
// Consumer groups instead: "classic" or "consumer" (KIP-848) prints the records and commits them,
// "transactions" copies them into the topic with "-done" behind its name, and aborts once.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 60 * time.Second

var output sync.Mutex

type event map[string]any

func say(name string, what event) {
	output.Lock()
	defer output.Unlock()
	what["event"] = name
	line, err := json.Marshal(what)
	check(err)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func acknowledged(_ *kgo.Client, results kgo.ShareAckResults) {
	for _, result := range results {
		said := ""
		if result.Err != nil {
			said = result.Err.Error()
		}
		say("acknowledged", event{"partition": result.Partition, "error": said})
	}
}

// obey acknowledges a record; true when that is the end of it.
func obey(ctx context.Context, client *kgo.Client, record *kgo.Record) bool {
	switch string(record.Value) {
	case "release":
		if record.DeliveryCount() == 1 {
			record.Ack(kgo.AckRelease)
			return false
		}
		record.Ack(kgo.AckAccept)
	case "reject":
		record.Ack(kgo.AckReject)
	case "renew":
		record.Ack(kgo.AckRenew)
		check(client.FlushAcks(ctx))
		record.Ack(kgo.AckAccept)
	case "unmarked": // the next poll accepts it
	default:
		record.Ack(kgo.AckAccept)
	}
	return true
}

func consume(ctx context.Context, client *kgo.Client, wanted int) {
	for finished := 0; finished < wanted; {
		records := polled(ctx, client.PollRecords(ctx, 100))
		for _, record := range records {
			say("record", event{
				"value":     string(record.Value),
				"partition": record.Partition,
				"offset":    record.Offset,
				"delivery":  record.DeliveryCount(),
				"batch":     len(records),
			})
			if obey(ctx, client, record) {
				finished++
			}
		}
		client.MarkAcks(kgo.AckAccept) // those that nothing was said about
		check(client.FlushAcks(ctx))
	}
}

// groupOptions are those of a member of a consumer group, of either protocol.
func groupOptions(mode string) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.ConsumeTopics(os.Args[2]),
		kgo.ConsumerGroup(os.Args[3]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if mode == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	}
	return options
}

// polled are the next records; any error ends the program.
func polled(ctx context.Context, fetches kgo.Fetches) []*kgo.Record {
	check(ctx.Err())
	for _, failed := range fetches.Errors() {
		check(failed.Err)
	}
	return fetches.Records()
}

// copyInTransactions copies records and commits their offsets; the first transaction it aborts.
func copyInTransactions(wanted int) {
	options := append(groupOptions("consumer"),
		kgo.TransactionalID(os.Args[3]),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)
	session, err := kgo.NewGroupTransactSession(options...)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	decision := kgo.TryAbort
	for done := 0; done < wanted; {
		records := polled(ctx, session.PollFetches(ctx))
		check(session.Begin())
		for _, record := range records {
			copied := kgo.Record{Topic: os.Args[2] + "-done", Value: record.Value}
			check(session.ProduceSync(ctx, &copied).FirstErr())
		}
		committed, err := session.End(ctx, decision)
		check(err)
		say("transaction", event{"committed": committed, "records": len(records)})
		if committed {
			done += len(records)
		}
		decision = kgo.TryCommit
	}
	session.Close()
	say("closed", event{})
}

// consumeAsGroup reads records as a member of a consumer group, and commits them.
func consumeAsGroup(mode string, wanted int) {
	client, err := kgo.NewClient(append(groupOptions(mode), kgo.DisableAutoCommit())...)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for seen := 0; seen < wanted; {
		for _, record := range polled(ctx, client.PollFetches(ctx)) {
			say("record", event{"value": string(record.Value), "partition": record.Partition})
			seen++
		}
		check(client.CommitUncommittedOffsets(ctx))
	}
	group, generation := client.GroupMetadata()
	say("member", event{"id": group, "generation": generation})
	client.Close()
	say("closed", event{})
}

func main() {
	if os.Args[1] == "secured" {
		secured(os.Args[2])
		return
	}
	wanted, err := strconv.Atoi(os.Args[4])
	check(err)
	mode := ""
	if len(os.Args) > 5 {
		mode = os.Args[5]
	}
	switch mode {
	case "classic", "consumer":
		consumeAsGroup(mode, wanted)
		return
	case "transactions":
		copyInTransactions(wanted)
		return
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.ConsumeTopics(os.Args[2]),
		kgo.ShareGroup(os.Args[3]),
		kgo.ShareAckCallback(acknowledged),
	}
	if mode == "strict" {
		options = append(options, kgo.ShareMaxRecords(2), kgo.ShareMaxRecordsStrict())
	}
	client, err := kgo.NewClient(options...)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	consume(ctx, client, wanted)
	client.Close()
	say("closed", event{})
}

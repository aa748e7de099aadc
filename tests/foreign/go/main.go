// A share consumer by franz-go that does to each record what the record's value says, prints a line
// of JSON for all that it sees, and ends when so many records are accepted or rejected.
//
// Arguments: bootstrap servers, topic, group, number of records, and "strict" for record_limit, or
// "classic" for a classic consumer group, whose records it only prints.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
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
		fetches := client.PollRecords(ctx, 100)
		check(ctx.Err())
		for _, failed := range fetches.Errors() {
			check(failed.Err)
		}
		records := fetches.Records()
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

// consumeClassic reads records as a member of a classic consumer group, and commits them.
func consumeClassic(wanted int) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.ConsumeTopics(os.Args[2]),
		kgo.ConsumerGroup(os.Args[3]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for seen := 0; seen < wanted; {
		fetches := client.PollFetches(ctx)
		check(ctx.Err())
		for _, failed := range fetches.Errors() {
			check(failed.Err)
		}
		for _, record := range fetches.Records() {
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
	wanted, err := strconv.Atoi(os.Args[4])
	check(err)
	if len(os.Args) > 5 && os.Args[5] == "classic" {
		consumeClassic(wanted)
		return
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(os.Args[1]),
		kgo.ConsumeTopics(os.Args[2]),
		kgo.ShareGroup(os.Args[3]),
		kgo.ShareAckCallback(acknowledged),
	}
	if len(os.Args) > 5 && os.Args[5] == "strict" {
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

// sarama and segmentio/kafka-go at work: codecs, groups of two, administration, transactions.
//
// Arguments: a bootstrap server, and "sarama" or "kafka-go". It prints what it found, and FAILED.
// "sarama-sasl" is a login by SaslHandshake version 0; user and password follow.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
)

func must(err error, what string) {
	if err != nil {
		fmt.Println("FAILED", what, err)
		os.Exit(1)
	}
}

type handler struct {
	mu     sync.Mutex
	got    map[string]int
	claims map[string][]int32
	name   string
	shared *handler
}

func (h *handler) Setup(s sarama.ConsumerGroupSession) error {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	h.shared.claims[h.name] = s.Claims()["sarama"]
	fmt.Println("setup", h.name, s.Claims(), s.GenerationID())
	return nil
}
func (h *handler) Cleanup(s sarama.ConsumerGroupSession) error { return nil }
func (h *handler) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for m := range c.Messages() {
		h.shared.mu.Lock()
		h.shared.got[string(m.Value)]++
		h.shared.mu.Unlock()
		s.MarkMessage(m, "meta")
	}
	return nil
}

func saramaWork(boot string) {
	for _, version := range []sarama.KafkaVersion{sarama.V2_1_0_0, sarama.V2_8_0_0, sarama.MaxVersion} {
		cfg := sarama.NewConfig()
		cfg.Version = version
		cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
		cfg.Producer.Return.Successes = true
		cfg.Producer.RequiredAcks = sarama.WaitForAll
		admin, err := sarama.NewClusterAdmin([]string{boot}, cfg)
		must(err, "admin "+version.String())
		topic := "sarama"
		admin.DeleteTopic(topic)
		must(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 4, ReplicationFactor: 1}, false), "create")
		for ci, codec := range []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
			if codec == sarama.CompressionZSTD && !version.IsAtLeast(sarama.V2_1_0_0) {
				continue
			}
			c2 := *cfg
			c2.Producer.Compression = codec
			p, err := sarama.NewSyncProducer([]string{boot}, &c2)
			must(err, "producer")
			for i := 0; i < 40; i++ {
				_, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprintf("%d-%d", ci, i))})
				must(err, "send "+version.String()+codec.String())
			}
			p.Close()
		}
		codecs := 5
		if !version.IsAtLeast(sarama.V2_1_0_0) {
			codecs = 4
		}
		shared := &handler{got: map[string]int{}, claims: map[string][]int32{}}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		group := "sarama-" + version.String()
		for n := 0; n < 2; n++ {
			c3 := *cfg
			if n == 1 && version.IsAtLeast(sarama.V2_3_0_0) {
				c3.Consumer.Group.InstanceId = "static-1"
			}
			c3.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky(), sarama.NewBalanceStrategyRange()}
			g, err := sarama.NewConsumerGroup([]string{boot}, group, &c3)
			must(err, "group")
			h := &handler{name: fmt.Sprint(n), shared: shared}
			wg.Add(1)
			go func() {
				defer wg.Done()
				for ctx.Err() == nil {
					err := g.Consume(ctx, []string{topic}, h)
					if err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
						fmt.Println("consume", err)
						time.Sleep(100 * time.Millisecond)
					}
				}
				must(g.Close(), "close")
			}()
		}
		end := time.Now().Add(60 * time.Second)
		for time.Now().Before(end) {
			shared.mu.Lock()
			n, a, b := len(shared.got), len(shared.claims["0"]), len(shared.claims["1"])
			shared.mu.Unlock()
			if n == codecs*40 && a == 2 && b == 2 {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		desc, err := admin.DescribeConsumerGroups([]string{group})
		must(err, "describe")
		fmt.Println("sarama", version, len(shared.got), shared.claims, desc[0].State, desc[0].Protocol, len(desc[0].Members))
		cancel()
		wg.Wait()
		offs, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1, 2, 3}})
		must(err, "offsets")
		var sum int64
		for _, b := range offs.Blocks[topic] {
			sum += b.Offset
		}
		gs, err := admin.ListConsumerGroups()
		must(err, "list")
		fmt.Println(" committed", sum, "groups", len(gs))
		if version.IsAtLeast(sarama.V2_3_0_0) {
			r, err := admin.RemoveMemberFromConsumerGroup(group, []string{"static-1"})
			must(err, "remove")
			fmt.Println(" removed", r.Err, r.Members[0].Err)
		}
		if version.IsAtLeast(sarama.V1_1_0_0) {
			must(admin.DeleteConsumerGroup(group), "delete group")
		}
		_, err = admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
		must(err, "config")
		_, _, err = admin.DescribeCluster()
		must(err, "cluster")
		if version.IsAtLeast(sarama.V2_3_0_0) {
			v := "5000"
			must(admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &v}}, false), "alter")
		}
		must(admin.CreatePartitions(topic, 6, nil, false), "partitions")
		must(admin.DeleteRecords(topic, map[int32]int64{0: 3}), "delete records")
		// transactions
		c4 := *cfg
		c4.Producer.Idempotent = true
		c4.Net.MaxOpenRequests = 1
		c4.Producer.Transaction.ID = "sarama-tx-" + version.String()
		p, err := sarama.NewSyncProducer([]string{boot}, &c4)
		must(err, "tx producer")
		for i := 0; i < 4; i++ {
			must(p.BeginTxn(), "begin")
			for j := 0; j < 3; j++ {
				_, _, err = p.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("tx")})
				must(err, "tx send")
			}
			must(p.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: int64(i)}}}, "sarama-tx-group"), "add offsets")
			if i%2 == 0 {
				must(p.CommitTxn(), "commit")
			} else {
				must(p.AbortTxn(), "abort")
			}
		}
		p.Close()
		offs, _ = admin.ListConsumerGroupOffsets("sarama-tx-group", map[string][]int32{topic: {0}})
		fmt.Println(" tx offset", offs.Blocks[topic][0].Offset)
		must(admin.DeleteConsumerGroup("sarama-tx-group"), "del")
		must(admin.DeleteTopic(topic), "delete topic")
		admin.Close()
	}
}

func kafkaGo(boot string) {
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	client := &kafka.Client{Addr: kafka.TCP(boot), Timeout: 20 * time.Second}
	r, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: "kgo", NumPartitions: 4, ReplicationFactor: 1}}})
	must(err, "create")
	fmt.Println(r.Errors)
	n := 0
	for _, c := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		w := &kafka.Writer{Addr: kafka.TCP(boot), Topic: "kgo", Balancer: &kafka.RoundRobin{}, RequiredAcks: kafka.RequireAll, Compression: c, BatchTimeout: 5 * time.Millisecond}
		var ms []kafka.Message
		for i := 0; i < 40; i++ {
			ms = append(ms, kafka.Message{Value: []byte(fmt.Sprintf("%d-%d", c, i)), Headers: []kafka.Header{{Key: "h", Value: []byte("v")}}})
			n++
		}
		must(w.WriteMessages(ctx, ms...), "write")
		w.Close()
	}
	var mu sync.Mutex
	got := map[string]int{}
	by := map[int]map[int]bool{0: {}, 1: {}}
	var wg sync.WaitGroup
	readers := []*kafka.Reader{}
	rctx, stop := context.WithCancel(ctx)
	for k := 0; k < 2; k++ {
		rd := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{boot}, GroupID: "kgo-group", Topic: "kgo", StartOffset: kafka.FirstOffset, MaxWait: 200 * time.Millisecond, HeartbeatInterval: 500 * time.Millisecond, CommitInterval: 0})
		readers = append(readers, rd)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				m, err := rd.FetchMessage(rctx)
				if err != nil {
					return
				}
				mu.Lock()
				got[string(m.Value)]++
				by[k][m.Partition] = true
				mu.Unlock()
				must(rd.CommitMessages(ctx, m), "commit")
			}
		}()
	}
	w := &kafka.Writer{Addr: kafka.TCP(boot), Topic: "kgo", Balancer: &kafka.RoundRobin{}, BatchTimeout: 5 * time.Millisecond}
	end := time.Now().Add(60 * time.Second)
	more := 0
	for time.Now().Before(end) {
		mu.Lock()
		a, b, c := len(got), len(by[0]), len(by[1])
		mu.Unlock()
		if a >= n+more && b > 0 && c > 0 {
			break
		}
		if a >= n+more {
			must(w.WriteMessages(ctx, kafka.Message{Value: []byte(fmt.Sprintf("more-%d", more))}), "w")
			more++
		}
		time.Sleep(50 * time.Millisecond)
	}
	d, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{"kgo-group"}})
	must(err, "describe")
	fmt.Println("kafka-go", len(got), "of", n+more, by, d.Groups[0].GroupState, len(d.Groups[0].Members))
	stop()
	wg.Wait()
	for _, rd := range readers {
		must(rd.Close(), "close")
	}
	of, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: "kgo-group", Topics: map[string][]int{"kgo": {0, 1, 2, 3}}})
	must(err, "offset fetch")
	var sum int64
	for _, p := range of.Topics["kgo"] {
		sum += p.CommittedOffset
	}
	fmt.Println(" committed", sum)
	lo, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{"kgo": {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}}})
	must(err, "list offsets")
	fmt.Println(lo.Topics["kgo"][0].FirstOffset, lo.Topics["kgo"][0].LastOffset, lo.Topics["kgo"][0].Error)
	lg, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
	must(err, "list groups")
	fmt.Println("groups", len(lg.Groups), lg.Error)
	m, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{"kgo"}})
	must(err, "metadata")
	fmt.Println(len(m.Topics[0].Partitions), m.Brokers[0].ID)
	ip, err := client.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionalID: "kgo-tx", TransactionTimeoutMs: 10000})
	must(err, "init")
	ap, err := client.AddPartitionsToTxn(ctx, &kafka.AddPartitionsToTxnRequest{TransactionalID: "kgo-tx", ProducerID: ip.Producer.ProducerID, ProducerEpoch: ip.Producer.ProducerEpoch, Topics: map[string][]kafka.AddPartitionToTxn{"kgo": {{Partition: 0}}}})
	must(err, "add")
	fmt.Println(ap.Topics["kgo"][0].Error)
	et, err := client.EndTxn(ctx, &kafka.EndTxnRequest{TransactionalID: "kgo-tx", ProducerID: ip.Producer.ProducerID, ProducerEpoch: ip.Producer.ProducerEpoch, Committed: true})
	must(err, "end")
	fmt.Println("end", et.Error)
	dg, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{"kgo-group"}})
	must(err, "delete")
	fmt.Println(dg.Errors)
	dt, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{"kgo"}})
	must(err, "delete")
	ks := []string{}
	for k, e := range dt.Errors {
		ks = append(ks, fmt.Sprint(k, e))
	}
	sort.Strings(ks)
	fmt.Println(ks)
}

// saramaSasl writes and reads a record. The tokens of its logins have no header.
func saramaSasl(boot, user, password string) {
	cfg := sarama.NewConfig()
	cfg.ApiVersionsRequest = false // sarama wants it so for version 0
	cfg.Net.SASL.Enable = true
	cfg.Net.SASL.Version = sarama.SASLHandshakeV0
	cfg.Net.SASL.Mechanism = sarama.SASLTypePlaintext
	cfg.Net.SASL.User, cfg.Net.SASL.Password = user, password
	cfg.Producer.Return.Successes = true
	p, err := sarama.NewSyncProducer([]string{boot}, cfg)
	must(err, "producer")
	_, offset, err := p.SendMessage(&sarama.ProducerMessage{Topic: "sasl", Value: sarama.StringEncoder("v0")})
	must(err, "send")
	c, err := sarama.NewConsumer([]string{boot}, cfg)
	must(err, "consumer")
	claim, err := c.ConsumePartition("sasl", 0, offset)
	must(err, "consume")
	fmt.Println("got", string((<-claim.Messages()).Value))
}

func main() {
	switch os.Args[2] {
	case "sarama":
		saramaWork(os.Args[1])
	case "kafka-go":
		kafkaGo(os.Args[1])
	case "sarama-sasl":
		saramaSasl(os.Args[1], os.Args[3], os.Args[4])
	}
}

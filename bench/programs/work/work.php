<?php
// SPDX-License-Identifier: MIT
// work.php REPEATS: objects in arrays, strings, JSON written and read, regular expressions.
// Prints a sum of the results.
final class Item
{
    public function __construct(public string $name, public int $price, public array $tags)
    {
    }
}

final class Order
{
    public array $items = [];

    public function __construct(public string $customer)
    {
    }

    public function total(): int
    {
        return array_sum(array_map(fn($item) => $item->price, $this->items));
    }
}

function random(int $below): int
{
    static $state = 12345;
    $state = ($state * 1103515245 + 12345) % 2147483648;
    return intdiv($state, 65536) % $below;
}

function orders(int $count): array
{
    $orders = [];
    for ($i = 0; $i < $count; $i++) {
        $order = new Order("customer " . random(400));
        for ($k = random(5); $k >= 0; $k--) {
            $tags = [];
            for ($t = random(4); $t > 0; $t--) {
                $tags["tag$t"] = "value " . random(9);
            }
            $order->items[] = new Item("item " . random(500), random(10000), $tags);
        }
        $orders[] = $order;
    }
    return $orders;
}

function from_json(string $text): array
{
    return array_map(function ($found) {
        $order = new Order($found["customer"]);
        foreach ($found["items"] as $item) {
            $order->items[] = new Item($item["name"], $item["price"], $item["tags"]);
        }
        return $order;
    }, json_decode($text, true, 512, JSON_THROW_ON_ERROR));
}

ini_set("memory_limit", "-1");
$sum = 0;
for ($repeat = (int)($argv[1] ?? 1); $repeat > 0; $repeat--) {
    $text = json_encode(orders(6000));
    $again = from_json($text);
    if (json_encode($again) !== $text) {
        fwrite(STDERR, "the result is wrong\n");
        exit(1);
    }
    $groups = [];
    foreach ($again as $order) {
        $groups[$order->customer][] = $order;
    }
    ksort($groups);
    $page = "";
    foreach ($groups as $customer => $of) {
        $page .= "<h1>" . htmlspecialchars($customer) . "</h1>\n";
        foreach ($of as $order) {
            $names = implode(", ", array_map(fn($item) => ucfirst($item->name), $order->items));
            $page .= sprintf("<p>%s: %d</p>\n", $names, $order->total());
        }
    }
    preg_match_all('/[a-z]+ \d+/i', $page, $found);
    $words = [];
    foreach ($found[0] as $word) {
        $words[strtolower($word)] = ($words[strtolower($word)] ?? 0) + 1;
    }
    arsort($words);
    $lines = explode("\n", preg_replace('/<[^>]*>/', '', $page));
    usort($lines, 'strcmp');
    $sum += strlen($text) + count($words) + crc32(implode("\n", $lines));
}
echo "$sum\n";

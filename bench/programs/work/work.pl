# SPDX-License-Identifier: MIT
# work.pl REPEATS: words counted in hashes, records parsed from lines and grouped, JSON written
# and read by a grammar of regular expressions, text put together. Prints a sum of the results.
use strict;
use warnings;

my $repeats = shift // 1;
my $state = 12345;
sub random { $state = ($state * 1103515245 + 12345) % 2147483648; return int($state / 65536) % $_[0] }

sub lines_of {
    return join '', map {
        join("\t", "name" . random(900), random(100000), "city" . random(60), "x" x random(40)) . "\n"
    } 1 .. $_[0];
}

sub records_of {
    my %grouped;
    for my $line (split /\n/, $_[0]) {
        my ($name, $number, $city, $rest) = split /\t/, $line, -1;
        push @{ $grouped{$city}{$name} }, { number => $number, rest => $rest, tags => [ $name =~ /(\d)/g ] };
    }
    return \%grouped;
}

sub to_json {
    my ($value) = @_;
    if (ref $value eq 'HASH') {
        return '{' . join(',', map { "\"$_\":" . to_json($value->{$_}) } sort keys %$value) . '}';
    }
    return '[' . join(',', map { to_json($_) } @$value) . ']' if ref $value eq 'ARRAY';
    return "\"$value\"";
}

sub from_json {
    my ($text) = @_;
    if ($$text =~ /\G\{/gc) {
        my %found;
        while ($$text !~ /\G\}/gc) {
            $$text =~ /\G,?"([^"]*)":/gc or die "no key";
            my $key = $1;
            $found{$key} = from_json($text);
        }
        return \%found;
    }
    if ($$text =~ /\G\[/gc) {
        my @found;
        until ($$text =~ /\G\]/gc) {
            $$text =~ /\G,/gc;
            push @found, from_json($text);
        }
        return \@found;
    }
    $$text =~ /\G"([^"]*)"/gc or die "no value";
    return "$1";
}

my $sum = 0;
for my $repeat (1 .. $repeats) {
    my $grouped = records_of(lines_of(9000));
    my $json = to_json($grouped);
    my $again = from_json(\(my $text = $json));
    die "the result is wrong" if to_json($again) ne $json;
    my %words;
    $words{$_}++ for $json =~ /([a-z]+\d+)/g;
    my @sorted = sort { $words{$b} <=> $words{$a} || $a cmp $b } keys %words;
    my $report = join "\n", map { sprintf '%-20s %6d', $_, $words{$_} } @sorted;
    $report =~ s/(\w+) +(\d+)/$2 $1/g;
    $sum += length($json) + length($report) + unpack('%32C*', $report);
}
print "$sum\n";
